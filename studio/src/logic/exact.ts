/** JSON with whole numbers of 64 bits: what a number of JavaScript would round is a `bigint`. */

import type { Json } from "../api";

/** Marks digits that stand for a number; nobody else knows it. */
const MARK = `n${crypto.getRandomValues(new Uint32Array(4)).join("x")}:`;
const LONG = /\d{16}/;
const TOKEN = /"(?:[^"\\]|\\.)*"|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?/g;
const WHOLE = /^-?\d{16,}$/;
const MARKED = new RegExp(`"${MARK}(-?\\d+)"`, "g");

export function parseExact(text: string): Json {
  if (!LONG.test(text)) return JSON.parse(text) as Json;
  const marked = text.replace(TOKEN, (token) =>
    WHOLE.test(token) && !Number.isSafeInteger(Number(token)) ? `"${MARK}${token}"` : token,
  );
  return JSON.parse(marked, (_name, value: Json) =>
    typeof value === "string" && value.startsWith(MARK) ? BigInt(value.slice(MARK.length)) : value,
  ) as Json;
}

export function writeExact(value: unknown, indent?: number): string {
  const text = JSON.stringify(
    value,
    (_name, item: unknown) => (typeof item === "bigint" ? `${MARK}${item}` : item),
    indent,
  );
  return text.replace(MARKED, "$1");
}
