import { describe, expect, test } from "vitest";
import { formatPlace, parsePlace, stateBody, stateParams } from "../src/logic/address";
import { toCsv } from "../src/logic/csv";
import { parseExact, writeExact } from "../src/logic/exact";
import { placeCommits } from "../src/logic/lanes";
import { placeLayers } from "../src/logic/layered";
import {
  chosenValues,
  differing,
  isDecided,
  proposal,
  resolveOf,
  UNDECIDED,
} from "../src/logic/merging";
import { toUnits } from "../src/logic/spans";
import { editText, readValue, showValue } from "../src/logic/values";
import { variableTypes, wordsAt } from "../src/logic/words";
import type { Conflict, PropertyInfo, TypeInfo } from "../src/types";
import { pageOf, turned } from "../src/logic/pages";

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

describe("addresses", () => {
  test("an address survives the way there and back", () => {
    const place = {
      graph: "a graph/é",
      view: "compare" as const,
      params: { at: "work/1", source: "x&y" },
      hash: { q: 'query q() { match { $p: Person } return { "#&=" } }' },
    };
    const url = new URL(formatPlace(place), "http://x");
    expect(parsePlace(url.pathname, url.search, url.hash)).toEqual(place);
  });
  test("an unknown view is the overview", () => {
    expect(parsePlace("/studio/g/x/nonsense", "", "")).toMatchObject({ graph: "x", view: "overview" });
    expect(parsePlace("/studio/g/%E0%A4%A/query", "", "").graph).toBeNull();
  });
  test("a state is a branch, a commit or a tag", () => {
    expect(stateParams("")).toEqual({ branch: "main" });
    expect(stateParams("01M7MD3CVBMRQH0QCZHF885ZXX")).toEqual({ commit: "01M7MD3CVBMRQH0QCZHF885ZXX" });
    expect(stateBody("01M7MD3CVBMRQH0QCZHF885ZXX")).toEqual({ snapshot: "01M7MD3CVBMRQH0QCZHF885ZXX" });
    expect(stateParams("tag:v1")).toEqual({ tag: "v1" });
  });
});

test("spans count characters, the editor counts units", () => {
  expect(toUnits("a😀b", 2)).toBe(3);
  expect(toUnits("abc", 99)).toBe(3);
});

describe("lanes", () => {
  test("the trunk stays in the first lane, a branch beside it", () => {
    const placed = placeCommits(
      [
        { id: "side2", parents: ["side1"] },
        { id: "main2", parents: ["main1"] },
        { id: "side1", parents: ["main1"] },
        { id: "main1", parents: ["root"] },
        { id: "root", parents: [] },
      ],
      "main2",
    );
    const lanes = Object.fromEntries(placed.map((item) => [item.id, item.lane]));
    expect(lanes).toEqual({ side2: 1, main2: 0, side1: 1, main1: 0, root: 0 });
  });
  test("a merge joins two lanes, and a lane that ended is used again", () => {
    const placed = placeCommits(
      [
        { id: "m3", parents: ["m2", "b1"] },
        { id: "b1", parents: ["m2"] },
        { id: "m2", parents: ["m1", "a1"] },
        { id: "a1", parents: ["m1"] },
        { id: "m1", parents: ["gone"] },
      ],
      "m3",
    );
    expect(placed.map((item) => item.lane)).toEqual([0, 1, 0, 1, 0]);
    expect(placed[4]?.links[0]?.row).toBeNull();
  });
});

const conflict = (more: Partial<Conflict> = {}): Conflict => ({
  table_key: "node:Person",
  row_id: "ann",
  kind: "divergent_update",
  message: "",
  base: { data: { id: "ann", age: 1, role: "x", name: "Ann" } },
  ours: { data: { id: "ann", age: 2, role: "x", name: "Ann" } },
  theirs: { data: { id: "ann", age: 3, role: "y", name: "Ann" } },
  ...more,
});

describe("merging", () => {
  test("only properties that differ need a choice, and one side's change is proposed", () => {
    expect(differing(conflict())).toEqual(["age", "role"]);
    expect(proposal(conflict(), "role")).toBe("theirs");
    expect(proposal(conflict(), "age")).toBeNull();
  });
  test("choices become the values of a merge", () => {
    expect(isDecided(conflict(), UNDECIDED)).toBe(false);
    const decision = { whole: null, properties: { age: { value: 9 } } };
    expect(chosenValues(conflict(), decision)).toEqual({ age: 9, role: "y" });
    expect(resolveOf([conflict()], { "Person/ann": decision })).toEqual({
      "Person/ann": { age: 9, role: "y" },
    });
    expect(resolveOf([conflict()], { "Person/ann": { whole: "ours", properties: {} } })).toEqual({
      "Person/ann": "ours",
    });
  });
  test("an entity that one side removed is kept or removed as a whole", () => {
    const removed = conflict({ theirs: null });
    expect(isDecided(removed, { whole: null, properties: { age: { side: "ours" } } })).toBe(false);
    expect(isDecided(removed, { whole: "theirs", properties: {} })).toBe(true);
  });
});

describe("values", () => {
  test("dates are dates, vectors and blobs are short", () => {
    expect(showValue(18263, property("born", "Date"))).toBe("2020-01-02");
    expect(showValue(0, property("seen", "DateTime"))).toBe("1970-01-01T00:00:00.000Z");
    expect(showValue([...Array(1536).keys()], property("v", "Vector"))).toContain("1528 more");
    expect(showValue(`base64:${"A".repeat(400)}`, property("b", "Blob"))).toBe("blob, about 300 bytes");
    expect(showValue(null)).toBe("—");
  });
  test("text becomes the value its type takes, or says why not", () => {
    expect(readValue("7", "I32", false)).toBe(7);
    expect(readValue("9007199254740993", "I64", false)).toBe(9007199254740993n);
    expect(readValue("[1, 2]", "I32", true)).toEqual([1, 2]);
    expect(() => readValue("x", "I32", false)).toThrow("whole number");
    expect(() => readValue("maybe", "Bool", false)).toThrow("true or false");
    expect(editText(18263, property("born", "Date"))).toBe("2020-01-02");
  });
  test("CSV quotes what needs it and disarms formulas", () => {
    expect(toCsv(["a", "b"], [{ a: 'x,"y', b: null }, { a: "=1+1", b: -3 }])).toBe(
      'a,b\r\n"x,""y",\r\n\'=1+1,-3\r\n',
    );
  });
});

test("whole numbers of 64 bits are neither rounded nor taken for text", () => {
  const text = '{"a":9007199254740993,"b":[-9223372036854775808,1],"c":"9007199254740993","d":1.5e300,"f":0.01772399991750717,"e":"\\"9007199254740993"}';
  const found = parseExact(text) as Record<string, unknown>;
  expect(found["a"]).toBe(9007199254740993n);
  expect(found["c"]).toBe("9007199254740993");
  expect(found["d"]).toBe(1.5e300);
  expect(found["f"]).toBe(0.01772399991750717);
  expect(parseExact(writeExact(found))).toEqual(found);
  expect(writeExact({ a: 9007199254740993n })).toBe('{"a":9007199254740993}');
});

test("a large number that is chosen in a merge stays exact", () => {
  const big = (value: bigint): Conflict["ours"] => ({ data: { id: "ann", big: value } });
  const both = conflict({ base: null, ours: big(9007199254740993n), theirs: big(9007199254740995n) });
  const decision = { whole: null, properties: { big: { side: "theirs" as const } } };
  expect(writeExact(resolveOf([both], { "Person/ann": decision }))).toBe(
    '{"Person/ann":{"big":9007199254740995}}',
  );
});

const TYPES: TypeInfo[] = [
  { name: "Person", kind: "node", properties: [property("name", "String")], key: [], label: "name", implements: [], constraints: [] },
  { name: "Paper", kind: "node", properties: [property("title", "String")], key: [], label: "title", implements: [], constraints: [] },
  { name: "Wrote", kind: "edge", properties: [], key: [], label: "id", implements: [], constraints: [], source: "Person", target: "Paper" },
];

describe("completion", () => {
  test("a variable has the type its own query gives it", () => {
    const text = "query a() { match { $x: Paper } return { $x.title } }\nquery b() { match { $x: Person } return { $x.";
    const words = wordsAt(text, text.length, TYPES).map((word) => word.label);
    expect(words).toEqual(["id", "name"]);
  });
  test("a traversal types both its ends", () => {
    const found = variableTypes("query q() { match { $a wrote $b } return { $b.", TYPES);
    expect([found.get("a")?.name, found.get("b")?.name]).toEqual(["Person", "Paper"]);
  });
  test("types follow a colon", () => {
    expect(wordsAt("query q() { match { $p: P", 25, TYPES).map((word) => word.label)).toEqual(["Person", "Paper"]);
  });
});

test("edges of a schema lead to the right, and cycles end", () => {
  const spots = placeLayers(["A", "B", "C"], [
    { from: "A", to: "B" },
    { from: "B", to: "C" },
    { from: "C", to: "A" },
    { from: "A", to: "A" },
  ]);
  expect(spots).toHaveLength(3);
  const line = placeLayers(["Paper", "Person"], [{ from: "Person", to: "Paper" }]);
  expect(line.map((spot) => [spot.name, spot.layer])).toEqual([["Person", 0], ["Paper", 1]]);
});

describe("pages", () => {
  const query = "query q() { match { $p: P } return { $p } limit 20 }\n";

  test("a page is turned where the text ends with a limit", () => {
    expect(pageOf(query)).toEqual({ limit: 20, offset: 0 });
    const next = turned(query, 1);
    expect(next).toBe("query q() { match { $p: P } return { $p } limit 20 offset 20 }\n");
    expect(pageOf(turned(next, 2))).toEqual({ limit: 20, offset: 60 });
    expect(turned(next, -1)).toBe(query);
    expect(turned(query, -1)).toBe(query);
  });

  test("other texts have no pages", () => {
    for (const text of ["", "query q() { match { $p: P } return { $p } }", `${query}// limit 3`]) {
      expect(pageOf(text)).toBeNull();
      expect(turned(text, 1)).toBe(text);
    }
  });
});
