import { describe, expect, test } from "vitest";
import { linePoints, means, parseMetrics, rates, showBytes, total } from "../src/logic/metrics";
import { readReport, runsOf } from "../src/logic/runs";
import { searchQuery, waysOf } from "../src/logic/searching";
import type { Commit, TypeInfo } from "../src/types";

const TEXT = `# HELP omnigraph_requests_total Requests answered.
# TYPE omnigraph_requests_total counter
omnigraph_requests_total{method="GET",route="/x",status="200"} 7.0
omnigraph_requests_total{method="POST",route="a\\"b\\\\c",status="200"} 2.0
omnigraph_requests_in_flight 1.0
omnigraph_cache_bytes{graph="g"} 1.5e+06
`;

describe("metrics", () => {
  test("numbers and labels are read as they were written", () => {
    const found = parseMetrics(TEXT);
    expect(found).toHaveLength(4);
    expect(found[1]?.labels["route"]).toBe('a"b\\c');
    expect(total(found, "omnigraph_requests_total")).toBe(9);
    expect(total(found, "omnigraph_requests_total", { method: "GET" })).toBe(7);
    expect(total(found, "omnigraph_cache_bytes", { graph: "g" })).toBe(1_500_000);
    expect(total(found, "nothing")).toBe(0);
  });

  const look = (at: number, value: number, sum = 0) => ({
    at,
    samples: [
      { name: "n", labels: {}, value },
      { name: "s_count", labels: {}, value },
      { name: "s_sum", labels: {}, value: sum },
    ],
  });

  test("a counter becomes a rate, and a restarted server none below zero", () => {
    const looks = [look(0, 10), look(2000, 14), look(4000, 3)];
    expect(rates(looks, (samples) => total(samples, "n"))).toEqual([2, 1.5]);
    expect(rates([look(0, 1)], (samples) => total(samples, "n"))).toEqual([]);
  });

  test("there is no mean where nothing was counted", () => {
    expect(means([look(0, 1, 1), look(1, 3, 2), look(2, 3, 2)], "s")).toEqual([0.5, null]);
  });

  test("a line has a gap where there is no value, and zero lies on the floor", () => {
    expect(linePoints([0, 2, null, 1], 30, 10)).toEqual({ lines: ["0,10 10,0", "30,5"], most: 2 });
    expect(linePoints([0, 0], 30, 10).lines).toEqual(["0,10 30,10"]);
    expect(linePoints([], 30, 10)).toEqual({ lines: [], most: 0 });
  });

  test("sizes are told in units", () => {
    expect([0, 999, 1000, 1_234_567].map(showBytes)).toEqual(["0 bytes", "999 bytes", "1.00 kB", "1.23 MB"]);
  });
});

describe("runs of pipelines", () => {
  const commit = (id: string, operation: string): Commit => ({
    graph_commit_id: id,
    graph_branch: null,
    manifest_version: 1,
    parent_commit_id: null,
    merged_parent_commit_id: null,
    actor_id: null,
    created_at: 1,
    kind: "load",
    operation_id: operation,
  });

  test("commits of one run are one line, whatever its id looks like", () => {
    const found = runsOf([
      commit("3", "pipeline:daily:2026:01:02:merge"),
      commit("2", "pipeline:daily:2026:01:02:load"),
      commit("1", "01J000"),
      commit("0", "pipeline:other:x:load"),
    ]);
    expect(found.map((run) => [run.pipeline, run.run, run.steps.map((item) => item.step)])).toEqual([
      ["daily", "2026:01:02", ["load", "merge"]],
      ["other", "x", ["load"]],
    ]);
  });

  test("what is no report is refused with a sentence", () => {
    expect(() => readReport("<html>")).toThrow("not JSON");
    expect(() => readReport('{"a": 1}')).toThrow("no report");
    expect(() => readReport("null")).toThrow("no report");
    const found = readReport('{"pipeline":"p","run_id":"r","steps":[]}');
    expect([found.ok, found.rows]).toEqual([false, {}]);
  });
});

describe("searching", () => {
  const property = (name: string, scalar: string, more = {}) => ({
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
  const type: TypeInfo = {
    name: "Note",
    kind: "node",
    properties: [
      property("slug", "String"),
      property("text", "String", { indexed: true }),
      property("state", "String", { indexed: true, enum_values: ["a"] }),
      property("tags", "String", { indexed: true, is_list: true }),
      property("vector", "Vector", { vector_dim: 2 }),
    ],
    key: ["slug"],
    label: "slug",
    implements: [],
    constraints: [],
  };

  test("the schema says what can be searched", () => {
    expect(waysOf(type).map((way) => way.kind)).toEqual(["contains", "words", "near"]);
  });

  test("what is typed is a parameter, never a part of the query", () => {
    const evil = '" } } delete';
    for (const way of waysOf(type)) {
      const { query, params } = searchQuery(type, way, evil);
      expect(query).not.toContain("delete");
      expect(Object.values(params)).toEqual([evil]);
    }
  });

  test("numbers are a vector of the size that is declared", () => {
    const near = { kind: "near" as const, property: "vector", size: 2 };
    expect(searchQuery(type, near, " [1, 0.5]")).toEqual({
      query: "query found($to: Vector(2)) { match { $n: Note } return { $n } order { nearest($n.vector, $to) } limit 30 }",
      params: { to: [1, 0.5] },
    });
    expect(() => searchQuery(type, near, "[1]")).toThrow("2 numbers, not 1");
  });
});
