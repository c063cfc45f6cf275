/** A service that is played: answers by address, and streams that a test writes to. */

import { vi } from "vitest";

type Answer = (request: Request) => Response | Promise<Response>;

export class PlayedService {
  readonly asked: { path: string; headers: Headers; method: string }[] = [];
  readonly answers = new Map<string, Answer>();

  constructor() {
    vi.stubGlobal("fetch", async (address: string, init: RequestInit) => {
      const url = new URL(address);
      const path = url.pathname.replace("/v1/", "");
      const request = new Request(address, init);
      this.asked.push({
        path: path + url.search,
        headers: request.headers,
        method: request.method,
      });
      const answer = this.answers.get(path);
      return answer ? answer(request) : problem(404, "not_found");
    });
  }

  times(path: string): number {
    return this.asked.filter((request) => request.path.split("?")[0] === path).length;
  }
}

export function json(body: unknown, headers: Record<string, string> = {}): Response {
  return new Response(JSON.stringify(body), { headers });
}

export function problem(status: number, code: string, headers: Record<string, string> = {}) {
  return new Response(JSON.stringify({ title: code, detail: code, code }), { status, headers });
}

/** A stream of events that stays open until it is ended, or its request is aborted. */
export class PlayedStream {
  isOpen = true;
  private controller: ReadableStreamDefaultController<Uint8Array> | null = null;

  answer(request: Request): Response {
    const body = new ReadableStream<Uint8Array>({
      start: (controller) => {
        this.controller = controller;
      },
    });
    request.signal.addEventListener("abort", () => this.fail());
    return new Response(body);
  }

  comment(): void {
    this.write(": still there\n\n");
  }

  tell(event: string, data: unknown, id?: string): void {
    this.write(`event: ${event}\n${id ? `id: ${id}\n` : ""}data: ${JSON.stringify(data)}\n\n`);
  }

  end(): void {
    this.isOpen = false;
    this.controller?.close();
  }

  fail(): void {
    if (this.isOpen) {
      this.isOpen = false;
      this.controller?.error(new TypeError("network error"));
    }
  }

  private write(text: string): void {
    this.controller?.enqueue(new TextEncoder().encode(text));
  }
}
