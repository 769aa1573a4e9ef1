import { describe, expect, test } from "vitest";
import { toTabs } from "../src/logic/csv";
import { atFile, chosenColumns, formOf, guess, parseCsv, targetsOf, toLines } from "../src/logic/mapping";
import type { PropertyInfo, TypeInfo } from "../src/types";

const property = (name: string, scalar: string, more: Partial<PropertyInfo> = {}): PropertyInfo => ({
  name,
  scalar,
  type: scalar,
  nullable: true,
  is_list: false,
  key: false,
  unique: false,
  indexed: false,
  ...more,
});
const person: TypeInfo = {
  name: "Person",
  kind: "node",
  properties: [property("slug", "String", { nullable: false }), property("level", "I32"), property("tags", "String", { is_list: true })],
  key: ["slug"],
  label: "slug",
  implements: [],
  constraints: [],
};
const knows: TypeInfo = { ...person, name: "Knows", kind: "edge", properties: [property("since", "Date")] };

describe("CSV", () => {
  test("quotes, line ends and empty lines are read as they are meant", () => {
    const found = parseCsv('\ufeffa, b \r\n1,"x ""y""\nz"\r\n\r\n2,\n');
    expect(found.columns).toEqual(["a", "b"]);
    expect(found.rows).toEqual([
      { line: 2, cells: ["1", 'x "y"\nz'] },
      { line: 5, cells: ["2", ""] },
    ]);
  });

  test("what is no CSV is refused with a sentence", () => {
    expect(() => parseCsv("")).toThrow("empty");
    expect(() => parseCsv('a\n"x')).toThrow("begins in line 2");
  });

  test("cells of the clipboard are one line each, and no formulas", () => {
    expect(toTabs(["a", "b"], [{ a: "x\ty\nz", b: "=1+1" }, { a: -1, b: null }])).toBe("a\tb\nx y z\t'=1+1\n-1\t");
  });
});

describe("mapping", () => {
  test("columns find their properties however they are spelt, each once", () => {
    expect(guess(["SLUG", "Le_vel", "slug", "x"], person)).toEqual(["slug", "level", "", ""]);
    expect(targetsOf(knows)).toEqual(["from", "to", "since"]);
  });

  test("values are of the type that is declared", () => {
    const csv = parseCsv('slug,level,tags\nada,7,"[""a""]"\nbob,,\n');
    const found = toLines(csv, person, ["slug", "level", "tags"], new Set());
    expect(found.rejects).toEqual([]);
    expect(found.text.trim().split("\n").map((line) => JSON.parse(line))).toEqual([
      { type: "Person", data: { slug: "ada", level: 7, tags: ["a"] } },
      { type: "Person", data: { slug: "bob", level: null, tags: null } },
    ]);
  });

  test("rows that do not fit are told by the line they begin in, and can be left out", () => {
    const csv = parseCsv("slug,level\nada,x\nbob\ncy,3\n");
    const found = toLines(csv, person, ["slug", "level"], new Set());
    expect(found.rejects).toEqual([
      { line: 2, message: "level: write a whole number" },
      { line: 3, message: "it has 1 values for 2 columns" },
    ]);
    const rest = toLines(csv, person, ["slug", "level"], new Set([2, 3]));
    expect([rest.rejects, rest.lines]).toEqual([[], [4]]);
    expect(atFile([{ line: 1, message: "m" }], rest.lines)).toEqual([{ line: 4, message: "m" }]);
    expect(atFile([{ line: 1 }], null)).toEqual([{ line: 1 }]);
  });

  test("an edge has ends", () => {
    const csv = parseCsv("a,b,since,note\nx,y,2020-01-02,hi\n");
    const { text } = toLines(csv, knows, ["from", "to", "since", ""], new Set());
    expect(JSON.parse(text)).toEqual({ edge: "Knows", from: "x", to: "y", data: { since: "2020-01-02" } });
  });
});

describe("files", () => {
  test("a name tells what is in a file", () => {
    expect(formOf("a.CSV")).toEqual({ form: "csv", packed: false });
    expect(formOf("a.csv.gz")).toEqual({ form: "csv", packed: true });
    expect(formOf("a.jsonl.gz")).toEqual({ form: "lines", packed: true });
    expect(formOf("a.parquet")).toEqual({ form: "parquet", packed: false });
  });

  test("columns that become nothing are left out", () => {
    expect(chosenColumns(["A", "b", "c"], ["slug", "", "level"])).toEqual({ A: "slug", c: "level" });
    expect(chosenColumns(["A"], [])).toEqual({});
  });
});
