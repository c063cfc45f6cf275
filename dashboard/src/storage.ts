/** What the browser keeps for the page. Where it keeps nothing, choices last until a reload. */

type Area = "local" | "session";

function areaOf(area: Area): Storage | null {
  try {
    return area === "local" ? globalThis.localStorage : globalThis.sessionStorage;
  } catch {
    return null;
  }
}

export function readStored(area: Area, name: string): string | null {
  return areaOf(area)?.getItem(name) ?? null;
}

/** Keep a value; null forgets it. */
export function store(area: Area, name: string, value: string | null): void {
  try {
    if (value === null) {
      areaOf(area)?.removeItem(name);
    } else {
      areaOf(area)?.setItem(name, value);
    }
  } catch {
    // The area is full or closed; the value is still in use until the page goes.
  }
}
