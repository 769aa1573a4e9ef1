/** The only door to the server: its public API, on the page's own origin. */

import { parseExact, writeExact } from "./logic/exact";

export type Json = null | boolean | number | bigint | string | Json[] | { [name: string]: Json };
export type Row = Record<string, Json>;

/** Kept in memory only: a reload asks for it again. */
let token: string | null = null;

export function setToken(value: string | null): void {
  token = value;
}

export class Problem extends Error {
  readonly status: number;
  readonly type: string;
  readonly body: Row;

  constructor(status: number, body: Row) {
    super(typeof body["error"] === "string" ? body["error"] : `the server answered ${status}`);
    this.status = status;
    this.type = typeof body["type"] === "string" ? body["type"] : "";
    this.body = body;
  }

  get hint(): string | null {
    return typeof this.body["hint"] === "string" ? this.body["hint"] : null;
  }
}

export interface Ask {
  method?: "GET" | "POST" | "DELETE";
  params?: Record<string, string | number | boolean | null | undefined>;
  body?: unknown;
  /** What is sent as it is; lines of JSON unless a header says otherwise. */
  content?: string | Blob;
  headers?: Record<string, string>;
  signal?: AbortSignal;
}

export async function send(path: string, ask: Ask = {}): Promise<Response> {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(ask.params ?? {})) {
    if (value !== null && value !== undefined && value !== "") query.append(name, String(value));
  }
  const headers: Record<string, string> = { Accept: "application/json", ...ask.headers };
  if (token !== null) headers["Authorization"] = `Bearer ${token}`;
  const init: RequestInit = {
    method: ask.method ?? (ask.body === undefined && ask.content === undefined ? "GET" : "POST"),
    headers,
    credentials: "omit",
    cache: "no-store",
    redirect: "error",
  };
  if (ask.signal !== undefined) init.signal = ask.signal;
  if (ask.body !== undefined) {
    headers["Content-Type"] = "application/json";
    init.body = writeExact(ask.body);
  } else if (ask.content !== undefined) {
    headers["Content-Type"] ??= "application/x-ndjson";
    init.body = ask.content;
  }
  const text = query.toString();
  let response: Response;
  try {
    response = await fetch(text ? `${path}?${text}` : path, init);
  } catch (error) {
    if (error instanceof DOMException && error.name === "AbortError") throw error;
    throw new Problem(0, { error: "the server does not answer", type: "unreachable" });
  }
  if (!response.ok) {
    const body = (await response.json().catch(() => ({}))) as Row;
    throw new Problem(response.status, body);
  }
  return response;
}

export async function call<T>(path: string, ask: Ask = {}): Promise<T> {
  return parseExact(await (await send(path, ask)).text()) as T;
}

export function isAbort(error: unknown): boolean {
  return error instanceof DOMException && error.name === "AbortError";
}
