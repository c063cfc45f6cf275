/** The command lines that post what is on the form, safe to be pasted into a POSIX shell. */

import { DEFAULT_SERVER } from "../../api/client";
import type { Kind } from "../../api/types";
import { getAt } from "./body";
import { type Json, type JsonObject, writeJson } from "./json-text";

export interface CommandContext {
  kind: Kind;
  body: JsonObject;
  /** The service's own address, without `/v1`. */
  server: string;
  fresh: boolean;
  usesKey: boolean;
}

export const ADDRESSES: Record<Kind, string> = {
  pipeline: "pipeline-schedules",
  sharding: "sharding-plans",
  training: "training-plans",
};

const COMMANDS: Record<Kind, string> = { pipeline: "solve", sharding: "shard", training: "plan" };
const PLAIN = /^[A-Za-z0-9_@%+=:,./-]+$/;
/** Longer bodies are sent from a file: shells limit a command's length. */
const LONGEST_INLINE = 16_000;

const OPTIONS: Record<Kind, readonly (readonly [option: string, path: string])[]> = {
  pipeline: [
    ["--time-limit", "solver.time_limit_s"],
    ["--iterations", "solver.search_iterations"],
    ["--engine", "solver.engine"],
    ["--threads", "solver.threads"],
    ["--seed", "solver.seed"],
    ["--mipgap", "solver.mip_gap"],
  ],
  sharding: [
    ["--devices", "devices"],
    ["--alpha", "alpha"],
    ["--time-limit", "solver.time_limit_s"],
    ["--engine", "solver.engine"],
    ["--threads", "solver.threads"],
    ["--mipgap", "solver.mip_gap"],
  ],
  training: [
    ["--top", "search.top"],
    ["--finalists", "search.finalists"],
    ["--pareto", "search.pareto"],
    ["--time-limit", "solver.time_limit_s"],
    ["--engine", "solver.engine"],
    ["--threads", "solver.threads"],
    ["--seed", "solver.seed"],
    ["--mipgap", "solver.mip_gap"],
  ],
};

/** One word of a command line, whatever is in it. */
export function quoted(word: string): string {
  return PLAIN.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`;
}

export function curlCommand(context: CommandContext): string {
  const json = writeJson(context.body);
  const data =
    json.length <= LONGEST_INLINE
      ? `-d ${quoted(json)}`
      : `--data-binary ${quoted(`@${fileName(context.body)}`)}`;
  return joined([
    `curl -sS ${quoted(`${context.server}/v1/${ADDRESSES[context.kind]}`)}`,
    "-H 'Content-Type: application/json'",
    // In double quotes: the shell puts in the key, which the page does not show.
    ...(context.usesKey ? ['-H "Authorization: Bearer $LOADMASTER_API_KEY"'] : []),
    ...(context.fresh ? ["-H 'Cache-Control: no-cache'"] : []),
    data,
  ]);
}

export function loadmasterCommand(context: CommandContext): string {
  const options = OPTIONS[context.kind].flatMap(([option, path]) =>
    optionWords(option, getAt(context.body, path)),
  );
  return joined([
    `loadmaster ${COMMANDS[context.kind]} ${quoted(fileName(context.body))} --wait`,
    ...options,
    ...(context.fresh ? ["--fresh"] : []),
    ...serverOption(context.server),
  ]);
}

/** What a command needs to reach this service. */
export function serverOption(server: string): string[] {
  return server === DEFAULT_SERVER ? [] : [`--server ${quoted(server)}`];
}

/** The name of the file that holds the body: the job's, as far as it is one for a file. */
export function fileName(body: JsonObject): string {
  const name = typeof body.name === "string" ? body.name : "";
  const safe = name.replace(/[^A-Za-z0-9._-]+/g, "-").replace(/^[-.]+|[-.]+$/g, "");
  return `${safe.slice(0, 60) || "request"}.json`;
}

/** Only what an option of the command can say; the file says the rest. */
function optionWords(option: string, value: Json | undefined): string[] {
  if (typeof value === "boolean") {
    return [value ? option : option.replace("--", "--no-")];
  }
  return typeof value === "number" || typeof value === "string"
    ? [`${option} ${quoted(String(value))}`]
    : [];
}

function joined(parts: readonly string[]): string {
  return parts.join(" \\\n  ");
}
