import { describe, expect, it } from "vitest";
import { href, parseRoute } from "../src/route";

describe("the address", () => {
  it("carries the path and the filters, whatever is in them", () => {
    const address = href(["jobs", "a/b c"], { name: "x&y=#1", state: undefined, tag: "" });
    const route = parseRoute(address);
    expect(route.path).toEqual(["jobs", "a/b c"]);
    expect(Object.fromEntries(route.query)).toEqual({ name: "x&y=#1" });
  });

  it("of nothing, or of broken escapes, is read all the same", () => {
    expect(parseRoute("").path).toEqual([]);
    expect(parseRoute("#/jobs/%E0%A4").path).toEqual(["jobs", "%E0%A4"]);
  });
});
