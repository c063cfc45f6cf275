import { describe, expect, it } from "vitest";
import { age, bytes, duration, milliseconds, percent } from "../src/format";

describe("numbers", () => {
  it("have the unit that suits them", () => {
    expect(milliseconds(2_488_938_000)).toBe("2,488.938 ms");
    expect(duration(2_488_938_000)).toBe("2.489 s");
    expect(duration(23_000)).toBe("23.00 µs");
    expect(duration(7)).toBe("7 ns");
    expect(bytes(1023)).toBe("1,023 B");
    expect(bytes(34_539_902_095)).toBe("32.17 GiB");
    expect(percent(0.1601)).toBe("16.01%");
  });

  it("say how long ago something was in the largest unit that fits", () => {
    const now = new Date("2026-01-02T00:00:00Z");
    expect(age(new Date("2026-01-01T23:59:30Z"), now)).toContain("30");
    expect(age(new Date("2026-01-01T21:30:00Z"), now)).toContain("2");
    expect(age(new Date("2026-01-02T00:00:05Z"), now)).toContain("0");
  });
});
