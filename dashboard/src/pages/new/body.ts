/** Reading and changing a request's body by path, whatever short form its parts have. */

import { isObject, type Json, type JsonObject } from "./json-text";

const CLUSTER = /^(?:(\d{1,6})\s*x\s*)?(\d{1,6})\s*x\s*(\S.*)$/;
/** Parts whose text is a preset's name. */
const NAMED = new Set(["model", "transformer", "cluster.gpu", "devices.gpu"]);

export function getAt(body: JsonObject, path: string): Json | undefined {
  let value: Json | undefined = body;
  let at = "";
  for (const name of path.split(".")) {
    const fields: JsonObject | null = at === "" ? body : asFields(at, value);
    value = fields && Object.hasOwn(fields, name) ? fields[name] : undefined;
    at = at === "" ? name : `${at}.${name}`;
  }
  return value;
}

/** The body with this value, or without it; a part that becomes empty goes. A number in a path is
 * a place in a list, where there is one. */
export function setAt(body: JsonObject, path: string, value: Json | undefined): JsonObject {
  return changed(body, path.split("."), "", value) ?? {};
}

/** A part of the body as its fields: a preset's name or `4x8xH100` written out. */
export function asFields(path: string, value: Json | undefined): JsonObject | null {
  if (isObject(value)) {
    return value;
  }
  if (typeof value === "string") {
    return NAMED.has(path) ? { preset: value } : isCluster(path) ? clusterOf(value) : null;
  }
  return typeof value === "number" && path === "devices" ? { count: value } : null;
}

function changed(
  fields: JsonObject,
  names: readonly string[],
  at: string,
  value: Json | undefined,
): JsonObject | undefined {
  const [name = "", ...rest] = names;
  const path = at === "" ? name : `${at}.${name}`;
  const inner =
    rest.length === 0
      ? value
      : isList(fields[name])
        ? withEntry(fields[name], rest, path, value)
        : shortened(path, changed(asFields(path, fields[name]) ?? {}, rest, path, value));
  const next = { ...fields };
  if (inner === undefined) {
    delete next[name];
  } else {
    next[name] = inner;
  }
  return Object.keys(next).length > 0 ? next : undefined;
}

function isList(value: Json | undefined): value is Json[] {
  return Array.isArray(value);
}

function withEntry(
  list: readonly Json[],
  names: readonly string[],
  at: string,
  value: Json | undefined,
): Json[] {
  const [place = "", ...rest] = names;
  const path = `${at}.${place}`;
  return list.map((entry, index) => {
    if (index !== Number(place)) {
      return entry;
    }
    return rest.length === 0
      ? (value ?? null)
      : (changed(asFields(path, entry) ?? {}, rest, path, value) ?? {});
  });
}

function shortened(path: string, fields: JsonObject | undefined): Json | undefined {
  const isOnlyName = fields && Object.keys(fields).join() === "preset" && NAMED.has(path);
  return isOnlyName ? fields.preset : fields;
}

function isCluster(path: string): boolean {
  return path === "cluster" || path === "devices";
}

function clusterOf(text: string): JsonObject | null {
  const match = CLUSTER.exec(text.trim());
  if (!match) {
    return null;
  }
  const [, nodes, gpus, gpu = ""] = match;
  return {
    gpu,
    ...(nodes === undefined ? {} : { nodes: Number(nodes) }),
    gpus_per_node: Number(gpus),
  };
}
