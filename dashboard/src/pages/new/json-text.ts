/**
 * Reading JSON that people write: what is wrong with it is said with line and column, whatever the
 * browser, and a name that is given twice is refused, as the service does.
 */

export type Json = null | boolean | number | string | Json[] | JsonObject;
export interface JsonObject {
  [name: string]: Json;
}

export type Expected = "value" | "name" | "colon" | "comma" | "end" | "object" | "depth" | "unique";

export interface JsonFault {
  line: number;
  column: number;
  expected: Expected;
  /** What stands there instead; empty at the text's end. */
  found: string;
}

export type JsonReading = { document: JsonObject } | { fault: JsonFault };

const DEEPEST = 100;
const LONGEST_FOUND = 20;
const BLANK = /[ \t\r\n]*/y;
// biome-ignore lint/suspicious/noControlCharactersInRegex: JSON allows none of them in a string.
const STRING = /"(?:[^"\\\u0000-\u001f]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*"/y;
const SCALAR = /-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?(?![\w.])|(?:true|false|null)(?!\w)/y;
const WORD = /[\w.+-]+|"[^\n]*|./y;

export function readJsonObject(text: string): JsonReading {
  const scanner = new Scanner(text.replace(/^\ufeff/, " "));
  const fault = scanner.fault();
  if (fault) {
    return { fault };
  }
  const document: Json = JSON.parse(text.replace(/^\ufeff/, ""));
  return isObject(document)
    ? { document }
    : { fault: { line: 1, column: 1, expected: "object", found: text.trim().slice(0, 1) } };
}

export function isObject(value: unknown): value is JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

export function writeJson(document: JsonObject): string {
  return JSON.stringify(document, null, 2);
}

class Unexpected extends Error {
  constructor(
    readonly at: number,
    readonly expected: Expected,
  ) {
    super(expected);
  }
}

class Scanner {
  private at = 0;

  constructor(private readonly text: string) {}

  fault(): JsonFault | null {
    try {
      this.value(0);
      this.skipBlank();
      if (this.at < this.text.length) {
        throw new Unexpected(this.at, "end");
      }
      return null;
    } catch (error) {
      if (error instanceof Unexpected) {
        return this.described(error);
      }
      throw error;
    }
  }

  private value(depth: number): void {
    this.skipBlank();
    const first = this.text[this.at];
    if (first === "{" || first === "[") {
      if (depth >= DEEPEST) {
        throw new Unexpected(this.at, "depth");
      }
      this.at += 1;
      if (first === "{") {
        this.members(depth + 1);
      } else {
        this.elements(depth + 1);
      }
    } else if (!this.takes(STRING) && !this.takes(SCALAR)) {
      throw new Unexpected(this.at, "value");
    }
  }

  private members(depth: number): void {
    if (this.takesMark("}")) {
      return;
    }
    const names = new Set<string>();
    do {
      this.skipBlank();
      const start = this.at;
      if (!this.takes(STRING)) {
        throw new Unexpected(start, "name");
      }
      const name: string = JSON.parse(this.text.slice(start, this.at));
      if (names.has(name)) {
        throw new Unexpected(start, "unique");
      }
      names.add(name);
      if (!this.takesMark(":")) {
        throw new Unexpected(this.at, "colon");
      }
      this.value(depth);
    } while (this.takesMark(","));
    this.closes("}");
  }

  private elements(depth: number): void {
    if (this.takesMark("]")) {
      return;
    }
    do {
      this.value(depth);
    } while (this.takesMark(","));
    this.closes("]");
  }

  private closes(mark: string): void {
    if (!this.takesMark(mark)) {
      throw new Unexpected(this.at, "comma");
    }
  }

  private takesMark(mark: string): boolean {
    this.skipBlank();
    const is = this.text[this.at] === mark;
    this.at += is ? 1 : 0;
    return is;
  }

  private takes(pattern: RegExp): boolean {
    pattern.lastIndex = this.at;
    const is = pattern.test(this.text);
    this.at = is ? pattern.lastIndex : this.at;
    return is;
  }

  private skipBlank(): void {
    this.takes(BLANK);
  }

  private described(error: Unexpected): JsonFault {
    const before = this.text.slice(0, error.at).split("\n");
    WORD.lastIndex = error.at;
    const found = WORD.exec(this.text)?.[0] ?? "";
    return {
      line: before.length,
      column: (before.at(-1)?.length ?? 0) + 1,
      expected: error.expected,
      found: found.slice(0, LONGEST_FOUND),
    };
  }
}
