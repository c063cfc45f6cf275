import { describe, expect, it } from "vitest";
import {
  age,
  bytes,
  dateTime,
  duration,
  percent,
  scaled,
  scaleOf,
  utcTime,
  writerOf,
} from "../src/format";

describe("numbers", () => {
  it("have the unit that suits them", () => {
    expect(duration(2_488_938_000)).toBe("2.489 s");
    expect(duration(23_000)).toBe("23.00 µs");
    expect(duration(7)).toBe("7 ns");
    expect(bytes(1023)).toBe("1,023 B");
    expect(bytes(34_539_902_095)).toBe("32.17 GiB");
    expect(percent(0.1601)).toBe("16.01%");
  });

  it("that are read beside one another have the unit of the largest", () => {
    const write = writerOf("time", [4_485_133_000, null, 12_000_000]);
    expect([write(4_485_133_000), write(12_000_000), write(0)]).toEqual([
      "4.48513 s",
      "0.01200 s",
      "0 s",
    ]);
    const scale = scaleOf("bytes", [14 * 1024 ** 3]);
    expect(scaled(512 * 1024 ** 2, scale)).toBe("0.500");
    expect(scaled(28, scale)).toBe("<0.001");
    expect(scaled(-28, scale)).toBe(">−0.001");
  });

  it("name the time zone of the reader, and have one time for everyone", () => {
    const at = new Date("2026-01-02T03:04:05.678Z");
    const zone = Intl.DateTimeFormat("en", { timeZoneName: "short" })
      .formatToParts(at)
      .find((part) => part.type === "timeZoneName")?.value;
    expect(dateTime(at)).toContain(zone);
    expect(utcTime(at)).toBe("2026-01-02T03:04:05Z");
  });

  it("say how long ago something was in the largest unit that fits", () => {
    const now = new Date("2026-01-02T00:00:00Z");
    expect(age(new Date("2026-01-01T23:59:30Z"), now)).toContain("30");
    expect(age(new Date("2026-01-01T21:30:00Z"), now)).toContain("2");
    expect(age(new Date("2026-01-02T00:00:05Z"), now)).toContain("0");
  });
});
