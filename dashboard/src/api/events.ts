/** Server-Sent Events read with `fetch`, since the key goes into a header. */

import { send } from "./client";

export interface ServerEvent {
  id: string | null;
  event: string;
  data: string;
}

/** Turns text as it arrives into events; a comment is an event named `comment`. */
export class EventParser {
  private rest = "";
  private id: string | null = null;

  push(text: string): ServerEvent[] {
    // A line's end may itself be cut in two: the blocks are cut first, then the lines.
    const blocks = (this.rest + text).split(/\r?\n\r?\n/);
    this.rest = blocks.pop() ?? "";
    return blocks.map((block) => this.read(block));
  }

  private read(block: string): ServerEvent {
    let event = "message";
    const data: string[] = [];
    let commentOnly = true;
    for (const line of block.split(/\r?\n/)) {
      const colon = line.indexOf(":");
      if (colon === 0) {
        continue;
      }
      commentOnly = false;
      const name = colon < 0 ? line : line.slice(0, colon);
      const value = colon < 0 ? "" : line.slice(colon + 1).replace(/^ /, "");
      if (name === "event") {
        event = value;
      } else if (name === "data") {
        data.push(value);
      } else if (name === "id") {
        this.id = value;
      }
    }
    return { id: this.id, event: commentOnly ? "comment" : event, data: data.join("\n") };
  }
}

/** The events of a stream until it ends. Raises what `send` raises, and on a broken connection. */
export async function* streamEvents(
  path: string,
  signal: AbortSignal,
  lastEventId: string | null = null,
): AsyncGenerator<ServerEvent> {
  const headers: Record<string, string> = { Accept: "text/event-stream" };
  if (lastEventId !== null) {
    headers["Last-Event-ID"] = lastEventId;
  }
  const response = await send(path, { headers, signal });
  const reader = response.body?.pipeThrough(new TextDecoderStream()).getReader();
  const parser = new EventParser();
  while (reader) {
    const { done, value } = await reader.read();
    if (done) {
      return;
    }
    yield* parser.push(value);
  }
}
