/** Files of rows of one type: which column is which property; CSV as lines of JSON that a load takes. */

import type { Json, Row } from "../api";
import type { PropertyInfo, TypeInfo } from "../types";
import { writeExact } from "./exact";
import { readValue } from "./values";

export interface CsvRow {
  /** Where it begins in the file. */
  line: number;
  cells: string[];
}

export interface Csv {
  columns: string[];
  rows: CsvRow[];
}

/** Reads CSV as RFC 4180 has it; throws what is wrong with it. */
export function parseCsv(text: string, separator = ","): Csv {
  const found: CsvRow[] = [];
  let [cells, cell, line, start] = [[] as string[], "", 1, 1];
  let quoted = false;
  const body = text.startsWith("\ufeff") ? text.slice(1) : text;
  const endRow = (): void => {
    cells.push(cell);
    if (cells.length > 1 || cell !== "") found.push({ line: start, cells });
    [cells, cell] = [[], ""];
  };
  for (let at = 0; at < body.length; at += 1) {
    const sign = body[at] as string;
    if (sign === "\n") line += 1;
    if (quoted) {
      if (sign !== '"') cell += sign;
      else if (body[at + 1] === '"') {
        cell += '"';
        at += 1;
      } else quoted = false;
    } else if (sign === '"' && cell === "") quoted = true;
    else if (sign === separator) {
      cells.push(cell);
      cell = "";
    } else if (sign === "\n" || sign === "\r") {
      if (sign === "\r" && body[at + 1] === "\n") continue;
      endRow();
      start = line;
    } else cell += sign;
  }
  if (quoted) throw new Error(`the quotation that begins in line ${start} has no end`);
  endRow();
  const [head, ...rows] = found;
  if (head === undefined) throw new Error("the file is empty");
  return { columns: head.cells.map((name) => name.trim()), rows };
}

export type Form = "lines" | "csv" | "parquet";

/** What a file holds by its name, and whether it is packed by gzip. */
export function formOf(name: string): { form: Form; packed: boolean } {
  const lower = name.toLowerCase();
  const packed = lower.endsWith(".gz");
  const inner = packed ? lower.slice(0, -3) : lower;
  if (inner.endsWith(".csv")) return { form: "csv", packed };
  return { form: inner.endsWith(".parquet") ? "parquet" : "lines", packed };
}

/** The columns that become something, each with what it becomes. */
export function chosenColumns(columns: string[], chosen: string[]): Record<string, string> {
  const found = columns.map((name, index): [string, string] => [name, chosen[index] ?? ""]);
  return Object.fromEntries(found.filter(([, target]) => target !== ""));
}

/** What a column can be: a property, or an end of an edge. */
export function targetsOf(type: TypeInfo): string[] {
  const names = type.properties.map((item) => item.name);
  return type.kind === "edge" ? ["from", "to", ...names] : names;
}

const plain = (name: string): string => name.toLowerCase().replace(/[^a-z0-9]/g, "");

/** The property whose name a column has, however it is spelt; "" where there is none. */
export function guess(columns: string[], type: TypeInfo): string[] {
  const left = new Map(targetsOf(type).map((name) => [plain(name), name]));
  return columns.map((column) => {
    const found = left.get(plain(column)) ?? "";
    left.delete(plain(column));
    return found;
  });
}

export interface Reject {
  line: number;
  message: string;
}

export interface Mapped {
  text: string;
  /** Where in the file each line of the text comes from. */
  lines: number[];
  rejects: Reject[];
}

export function toLines(csv: Csv, type: TypeInfo, chosen: string[], without: Set<number>): Mapped {
  const found: Mapped = { text: "", lines: [], rejects: [] };
  const texts: string[] = [];
  for (const row of csv.rows) {
    if (without.has(row.line)) continue;
    try {
      if (row.cells.length !== csv.columns.length) {
        throw new Error(`it has ${row.cells.length} values for ${csv.columns.length} columns`);
      }
      texts.push(writeExact(envelope(type, chosen, row.cells)));
      found.lines.push(row.line);
    } catch (error) {
      found.rejects.push({ line: row.line, message: error instanceof Error ? error.message : String(error) });
    }
  }
  found.text = texts.length === 0 ? "" : `${texts.join("\n")}\n`;
  return found;
}

function envelope(type: TypeInfo, chosen: string[], cells: string[]): Row {
  const data: Row = {};
  const ends: Row = {};
  chosen.forEach((target, index) => {
    const text = cells[index] ?? "";
    if (target === "") return;
    const property = type.properties.find((item) => item.name === target);
    if (property === undefined) ends[target] = text;
    else data[target] = cellValue(text, property);
  });
  return type.kind === "edge" ? { edge: type.name, ...ends, data } : { type: type.name, data };
}

function cellValue(text: string, property: PropertyInfo): Json {
  if (text === "" && (property.nullable || property.scalar !== "String")) return null;
  try {
    return readValue(text, property.scalar, property.is_list);
  } catch (error) {
    throw new Error(`${property.name}: ${error instanceof Error ? error.message : "not understood"}`);
  }
}

/** What a server says about lines of JSON, at the lines of the file they were made of. */
export function atFile(problems: Row[], lines: number[] | null): Row[] {
  if (lines === null) return problems;
  return problems.map((item) => {
    const line = typeof item["line"] === "number" ? lines[item["line"] - 1] : undefined;
    return line === undefined ? item : { ...item, line };
  });
}
