/** Values as people read them: dates as dates, long vectors and blobs shortened. */

import type { Json } from "../api";
import type { PropertyInfo, TypeInfo } from "../types";
import { parseExact, writeExact } from "./exact";

const DAY_MS = 86_400_000;
const TEXT_MAX = 200;
const LIST_MAX = 8;

export function showValue(value: Json | undefined, property?: PropertyInfo): string {
  if (value === null || value === undefined) return "—";
  if (property?.scalar === "Blob" && typeof value === "string") return showBlob(value);
  if (Array.isArray(value)) return showList(value, property);
  if (typeof value === "number" && property?.scalar === "Date") return showDate(value);
  if (typeof value === "number" && property?.scalar === "DateTime") return showInstant(value);
  if (typeof value === "string") return shorten(value);
  return shorten(typeof value === "object" ? writeExact(value) : String(value));
}

function showList(values: Json[], property?: PropertyInfo): string {
  const item = property && { ...property, is_list: false };
  const shown = values
    .slice(0, LIST_MAX)
    .map((value) => (typeof value === "number" && !Number.isInteger(value) ? rounded(value) : showValue(value, item)));
  const more = values.length - shown.length;
  return `[${shown.join(", ")}${more > 0 ? `, … ${more} more` : ""}]`;
}

/** A float of a vector: more digits than these are noise of its 32 bits. */
const rounded = (value: number): string => String(Number(value.toPrecision(6)));

function showBlob(value: string): string {
  if (!value.startsWith("base64:")) return shorten(value);
  const size = Math.floor(((value.length - 7) * 3) / 4);
  return `blob, about ${size} bytes`;
}

export function shorten(text: string): string {
  return text.length > TEXT_MAX ? `${text.slice(0, TEXT_MAX)}… (${text.length} characters)` : text;
}

export function showDate(days: number): string {
  const moment = new Date(days * DAY_MS);
  return Number.isNaN(moment.getTime()) ? `${days} days` : moment.toISOString().slice(0, 10);
}

export function showInstant(milliseconds: number): string {
  const moment = new Date(milliseconds);
  return Number.isNaN(moment.getTime()) ? `${milliseconds} ms` : moment.toISOString();
}

/** A moment of a commit, in microseconds. */
export function showMoment(microseconds: number): string {
  return showInstant(Math.floor(microseconds / 1000)).slice(0, 19).replace("T", " ");
}

export function propertyOf(type: TypeInfo | undefined, name: string): PropertyInfo | undefined {
  return type?.properties.find((item) => item.name === name);
}

/** Text in a field as the value a property or parameter takes; throws what is wrong with it. */
export function readValue(text: string, kind: string, isList: boolean): Json {
  if (isList || kind === "Vector" || kind === "vector") {
    const found = parseExact(text);
    if (!Array.isArray(found)) throw new Error("write a list, such as [1, 2]");
    return found;
  }
  switch (kind.toLowerCase()) {
    case "bool":
      if (text !== "true" && text !== "false") throw new Error("write true or false");
      return text === "true";
    case "i32":
    case "u32":
    case "int":
    case "i64":
    case "u64":
    case "bigint":
      if (!/^-?\d+$/.test(text.trim())) throw new Error("write a whole number");
      return Number.isSafeInteger(Number(text)) ? Number(text) : BigInt(text.trim());
    case "f32":
    case "f64":
    case "float": {
      const found = Number(text);
      if (text.trim() === "" || !Number.isFinite(found)) throw new Error("write a number");
      return found;
    }
    default:
      return text;
  }
}

/** A value as text to edit; the opposite of `readValue`. */
export function editText(value: Json | undefined, property?: PropertyInfo): string {
  if (value === null || value === undefined) return "";
  if (Array.isArray(value)) return writeExact(value);
  if (typeof value === "number" && property?.scalar === "Date") return showDate(value);
  if (typeof value === "number" && property?.scalar === "DateTime") return showInstant(value);
  return String(value);
}
