import { execFileSync } from "node:child_process";
import { describe, expect, it } from "vitest";
import {
  type CommandContext,
  curlCommand,
  fileName,
  loadmasterCommand,
  quoted,
} from "../../src/pages/new/commands";

const NASTY = `it's "$HOME" \`id\` $(id) !! \\ \n & ; | <img src=x> ' '`;

/** The words that a shell makes of a command line, whose first word is replaced. */
function words(command: string, variables: Record<string, string> = {}): string[] {
  const script = command.replace(/^\w+/, "printf '%s\\0'");
  const out = execFileSync("/bin/sh", ["-c", script], { env: variables, encoding: "utf8" });
  return out.split("\0").slice(0, -1);
}

const CONTEXT: CommandContext = {
  kind: "pipeline",
  body: { model: "GPT-2", name: NASTY },
  server: "http://127.0.0.1:8400",
  fresh: false,
  usesKey: false,
};

describe("a shell's words", () => {
  it.each([NASTY, "", "-x", "'", "''", "a b", "$LOADMASTER_API_KEY", "*"])("%s", (word) => {
    expect(words(`x ${quoted(word)}`)).toEqual([word]);
  });

  it("leaves plain words plain", () => {
    expect(quoted("8xA100-40GB")).toBe("8xA100-40GB");
  });
});

describe("curl", () => {
  it("sends the body as it is, whatever is in it", () => {
    const sent = words(curlCommand(CONTEXT));
    expect(sent[1]).toBe("http://127.0.0.1:8400/v1/pipeline-schedules");
    expect(JSON.parse(sent.at(-1) ?? "")).toEqual(CONTEXT.body);
    expect(sent).not.toContain("Cache-Control: no-cache");
  });

  it("has the key from the environment, and asks for a fresh answer", () => {
    const command = curlCommand({ ...CONTEXT, usesKey: true, fresh: true });
    const sent = words(command, { LOADMASTER_API_KEY: "k'e y" });
    expect(command).toContain('"Authorization: Bearer $LOADMASTER_API_KEY"');
    expect(sent).toContain("Authorization: Bearer k'e y");
    expect(sent).toContain("Cache-Control: no-cache");
  });

  it("takes a long body from the file", () => {
    const body = { name: "big", pin: { a: "x".repeat(20_000) } };
    expect(words(curlCommand({ ...CONTEXT, body })).slice(-2)).toEqual([
      "--data-binary",
      "@big.json",
    ]);
  });
});

describe("loadmaster", () => {
  it("solves with the solver's options", () => {
    const solver = { time_limit_s: 30, engine: "cp_sat", threads: 4, seed: 1, mip_gap: 0.01 };
    expect(loadmasterCommand({ ...CONTEXT, body: { model: "GPT-2", solver } })).toBe(
      "loadmaster solve request.json --wait \\\n  --time-limit 30 \\\n  --engine cp_sat \\\n" +
        "  --threads 4 \\\n  --seed 1 \\\n  --mipgap 0.01",
    );
  });

  it("shards over devices that fit into a word", () => {
    const shard = (body: CommandContext["body"]) =>
      words(loadmasterCommand({ ...CONTEXT, kind: "sharding", body }));
    expect(shard({ devices: "8 x H100", alpha: 2 })).toEqual([
      "shard",
      "request.json",
      "--wait",
      "--devices",
      "8 x H100",
      "--alpha",
      "2",
    ]);
    expect(shard({ devices: { count: 4 }, alpha: [1, 2] })).toEqual([
      "shard",
      "request.json",
      "--wait",
    ]);
  });

  it("plans, afresh, on another service", () => {
    const command = loadmasterCommand({
      ...CONTEXT,
      kind: "training",
      body: { search: { top: 3, finalists: 0, pareto: false } },
      fresh: true,
      server: "https://plans.example/a b",
    });
    expect(words(command)).toEqual([
      ..."plan request.json --wait --top 3 --finalists 0 --no-pareto --fresh --server".split(" "),
      "https://plans.example/a b",
    ]);
  });
});

describe("the file's name", () => {
  it.each([
    ["GPT-2 on 8 x A100", "GPT-2-on-8-x-A100.json"],
    ["../../etc/passwd", "etc-passwd.json"],
    ["-rf", "rf.json"],
    ["模型", "request.json"],
    [NASTY, "it-s-HOME-id-id-img-src-x.json"],
  ])("%s", (name, file) => {
    expect(fileName({ name })).toBe(file);
  });
});
