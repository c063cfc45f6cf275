/** Requests to the service. Addresses are relative to the dashboard's, whatever is before it. */

import { apiKey, refuseKey } from "./key";

export interface FieldProblem {
  path: string;
  message: string;
  remedy?: string | null;
}

/** A problem document of the service, or what is known if there was none. */
export class ApiError extends Error {
  constructor(
    readonly status: number,
    readonly code: string,
    readonly title: string,
    detail: string,
    readonly errors: readonly FieldProblem[] = [],
    readonly retryAfterS: number | null = null,
  ) {
    super(detail);
  }
}

/** The service could not be reached at all. */
export class Unreachable extends Error {}

export interface Answer<T> {
  status: number;
  body: T;
  headers: Headers;
}

export interface AskOptions {
  method?: "GET" | "POST" | "DELETE";
  body?: unknown;
  headers?: Record<string, string>;
  signal?: AbortSignal | undefined;
}

/** The address of something below `/v1`. */
export function apiAddress(path: string): string {
  return new URL(`../v1/${path}`, document.baseURI).href;
}

/** Where the commands look for a service unless they are told. */
export const DEFAULT_SERVER = "http://127.0.0.1:8400";

/** The address of this service, as the commands' `--server` takes it. */
export function serviceAddress(): string {
  return apiAddress("").replace(/\/v1\/$/, "");
}

/** Send a request; 304 is an answer, every other failure an `ApiError` or `Unreachable`. */
export async function send(path: string, options: AskOptions = {}): Promise<Response> {
  const headers = new Headers(options.headers);
  if (apiKey.value !== null) {
    headers.set("Authorization", `Bearer ${apiKey.value}`);
  }
  const method = options.method ?? "GET";
  const init: RequestInit = { method, headers };
  if (method === "GET") {
    // Not for others: browsers add `Cache-Control: no-cache` then, which would solve afresh.
    init.cache = "no-store";
  }
  if (options.signal) {
    init.signal = options.signal;
  }
  if (options.body !== undefined) {
    headers.set("Content-Type", "application/json");
    init.body = typeof options.body === "string" ? options.body : JSON.stringify(options.body);
  }
  let response: Response;
  try {
    response = await fetch(apiAddress(path), init);
  } catch (error) {
    if (options.signal?.aborted) {
      throw error;
    }
    throw new Unreachable(String(error));
  }
  if (response.status === 401) {
    refuseKey();
  }
  if (!response.ok && response.status !== 304) {
    throw await problemOf(response);
  }
  return response;
}

export async function ask<T>(path: string, options: AskOptions = {}): Promise<Answer<T>> {
  const response = await send(path, options);
  const text = await response.text();
  const body = (text === "" ? undefined : JSON.parse(text)) as T;
  return { status: response.status, body, headers: response.headers };
}

async function problemOf(response: Response): Promise<ApiError> {
  const retryAfter = Number(response.headers.get("Retry-After"));
  const retryAfterS = Number.isFinite(retryAfter) && retryAfter > 0 ? retryAfter : null;
  try {
    const problem = await response.json();
    return new ApiError(
      response.status,
      problem.code ?? "http_error",
      problem.title ?? response.statusText,
      problem.detail ?? response.statusText,
      problem.errors ?? [],
      retryAfterS,
    );
  } catch {
    const title = response.statusText || `HTTP ${response.status}`;
    return new ApiError(response.status, "http_error", title, title, [], retryAfterS);
  }
}
