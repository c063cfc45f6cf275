import { describe, expect, it } from "vitest";
import { EventParser } from "../src/api/events";

const STREAM =
  'id: 1\nevent: state\ndata: {"a":1}\n\n: beat\n\nid: 2\r\nevent: log\r\ndata: one\r\ndata: two\r\n\r\n';

describe("server-sent events", () => {
  it("are the same wherever the stream is cut", () => {
    const whole = new EventParser().push(STREAM);
    for (let cut = 1; cut < STREAM.length; cut += 1) {
      const parser = new EventParser();
      const events = [...parser.push(STREAM.slice(0, cut)), ...parser.push(STREAM.slice(cut))];
      expect(events).toEqual(whole);
    }
    expect(whole).toEqual([
      { id: "1", event: "state", data: '{"a":1}' },
      { id: "1", event: "comment", data: "" },
      { id: "2", event: "log", data: "one\ntwo" },
    ]);
  });
});
