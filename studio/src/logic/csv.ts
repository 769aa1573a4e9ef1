/** Rows as CSV. */

import type { Json, Row } from "../api";
import { writeExact } from "./exact";

export function toCsv(columns: string[], rows: Row[]): string {
  const lines = [columns, ...rows.map((row) => columns.map((name) => row[name]))];
  return lines.map((line) => line.map(field).join(",")).join("\r\n") + "\r\n";
}

function field(value: Json | undefined): string {
  if (value === null || value === undefined) return "";
  const text = typeof value === "object" ? writeExact(value) : String(value);
  // A spreadsheet would take a text that begins like a formula for one.
  const safe = typeof value === "string" && /^[=+\-@\t\r]/.test(text) ? `'${text}` : text;
  return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}
