import { describe, expect, it } from "vitest";
import { apiPath, exportName, fileStem } from "../../src/views/downloads-files";

describe("addresses of exports", () => {
  it("are taken below /v1, whatever is before it", () => {
    expect(apiPath("/v1/jobs/1/export/csv")).toBe("jobs/1/export/csv");
    expect(apiPath("/proxy/v1/jobs/1/export/csv")).toBe("jobs/1/export/csv");
    expect(apiPath("https://plans.example/v1/jobs/1/export/csv")).toBe("jobs/1/export/csv");
  });

  it("never lead to another host", () => {
    expect(apiPath("//evil.example/v1/jobs")).toBe("jobs");
    expect(apiPath("https://evil.example/")).toBe("");
  });
});

describe("names of files", () => {
  it("come from the job's name, without what a path is made of", () => {
    expect(fileStem({ id: "1", name: "GPT-14.2B on 8 x A100" })).toBe("GPT-14-2B-on-8-x-A100");
    expect(fileStem({ id: "1", name: "<img src=x onerror=alert(1)>" })).toBe(
      "img-src-x-onerror-alert-1",
    );
    expect(fileStem({ id: "1", name: "流水线 调度" })).toBe("流水线-调度");
    expect(fileStem({ id: "1", name: "x".repeat(500) })).toHaveLength(60);
  });

  it("come from the id where there is no name", () => {
    expect(fileStem({ id: "abc", name: null })).toBe("job-abc");
    expect(fileStem({ id: "abc", name: "///" })).toBe("job-abc");
  });

  it("of exports hold no folder", () => {
    expect(exportName({ file_name: "../../plan.csv", format: "csv" }, "plan")).toBe("plan.csv");
    expect(exportName({ file_name: "..", format: "csv" }, "plan")).toBe("plan.csv");
  });
});
