/** Which page is shown, and its filters: all of it is in the address, after `#`. */

import { signal } from "@preact/signals";

export interface Route {
  /** The parts of the path: `["jobs", "ID"]`. */
  path: readonly string[];
  query: URLSearchParams;
}

export function parseRoute(hash: string): Route {
  const [path = "", query = ""] = hash.replace(/^#/, "").split("?", 2);
  const parts = path.split("/").filter((part) => part !== "");
  return { path: parts.map(decoded), query: new URLSearchParams(query) };
}

/** The address of a page; empty values are left out of it. */
export function href(
  path: readonly string[],
  query: Record<string, string | undefined> = {},
): string {
  const kept = Object.entries(query).filter((entry): entry is [string, string] =>
    Boolean(entry[1]),
  );
  const search = new URLSearchParams(kept).toString();
  return `#/${path.map(encodeURIComponent).join("/")}${search && `?${search}`}`;
}

export const route = signal<Route>(parseRoute(globalThis.location?.hash ?? ""));

/** Change filters of the page that is shown; going back leads to the page before it. */
export function setQuery(changes: Record<string, string | undefined>): void {
  const query = { ...Object.fromEntries(route.value.query), ...changes };
  history.replaceState(null, "", href(route.value.path, query));
  route.value = parseRoute(location.hash);
}

export function followAddress(): void {
  addEventListener("hashchange", () => {
    route.value = parseRoute(location.hash);
  });
}

function decoded(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}
