/** Rows as CSV. */

import type { Json, Row } from "../api";
import { writeExact } from "./exact";

export function toCsv(columns: string[], rows: Row[]): string {
  const lines = [columns, ...rows.map((row) => columns.map((name) => row[name]))];
  return lines.map((line) => line.map(field).join(",")).join("\r\n") + "\r\n";
}

/** Rows as spreadsheets take them from the clipboard: a cell is one line, between tabs. */
export function toTabs(columns: string[], rows: Row[]): string {
  const lines = [columns, ...rows.map((row) => columns.map((name) => cell(row[name])))];
  return lines.map((line) => line.join("\t")).join("\n");
}

function cell(value: Json | undefined): string {
  if (value === null || value === undefined) return "";
  const text = typeof value === "object" ? writeExact(value) : String(value);
  return guarded(value, text).replace(/[\t\r\n]+/g, " ");
}

/** A spreadsheet would take a text that begins like a formula for one. */
const guarded = (value: Json, text: string): string =>
  typeof value === "string" && /^[=+\-@\t\r]/.test(text) ? `'${text}` : text;

function field(value: Json | undefined): string {
  if (value === null || value === undefined) return "";
  const text = typeof value === "object" ? writeExact(value) : String(value);
  const safe = guarded(value, text);
  return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}
