/** What can stand at a place in query text: words of the language and names of the schema. */

import type { TypeInfo } from "../types";

export const KEYWORDS = [
  ..."query match return distinct order limit offset optional not and or in is null".split(" "),
  ..."insert upsert update delete set where as asc desc contains starts_with true false".split(" "),
];
export const FUNCTIONS = [
  ..."count sum avg min max now date datetime nearest bm25 search match_text fuzzy rrf".split(" "),
];

export interface Word {
  label: string;
  type: "keyword" | "function" | "class" | "property" | "variable";
  detail?: string;
}

/** The text of the query that a place is in: names bound elsewhere mean nothing here. */
export function enclosing(text: string, place: number): string {
  const start = text.lastIndexOf("query ", place);
  const next = text.indexOf("query ", place);
  return text.slice(Math.max(start, 0), next < 0 ? undefined : next);
}

/** The types that variables of a query have, as far as its text says so. */
export function variableTypes(query: string, types: TypeInfo[]): Map<string, TypeInfo> {
  const found = new Map<string, TypeInfo>();
  const byName = new Map(types.map((type) => [type.name, type]));
  for (const [, name, type] of query.matchAll(/\$(\w+)\s*:\s*(\w+)/g)) {
    const known = type === undefined ? undefined : byName.get(type);
    if (name !== undefined && known !== undefined) found.set(name, known);
  }
  for (const [, left, edgeVariable, word, right] of query.matchAll(
    /\$(\w+)\s+(?:\$(\w+)\s*:\s*)?<?(\w+)>?(?:\s*\{[^}]*\})?\s+\$(\w+)/g,
  )) {
    const edge = types.find(
      (type) => type.kind === "edge" && type.name.toLowerCase() === word?.toLowerCase(),
    );
    if (edge === undefined) continue;
    if (edgeVariable !== undefined) found.set(edgeVariable, edge);
    const [source, target] = [byName.get(edge.source ?? ""), byName.get(edge.target ?? "")];
    const backwards = left !== undefined && found.get(left)?.name === edge.target &&
      edge.source !== edge.target;
    const ends = backwards ? [target, source] : [source, target];
    if (left !== undefined && ends[0] && !found.has(left)) found.set(left, ends[0]);
    if (right !== undefined && ends[1] && !found.has(right)) found.set(right, ends[1]);
  }
  return found;
}

export function wordsAt(text: string, place: number, types: TypeInfo[]): Word[] {
  const before = text.slice(0, place);
  const query = enclosing(text, place);
  const property = /\$(\w+)\.\w*$/.exec(before);
  if (property !== null) {
    const type = variableTypes(query, types).get(property[1] ?? "");
    if (type === undefined) return [{ label: "id", type: "property" }];
    return [
      { label: "id", type: "property", detail: "String" },
      ...type.properties.map((item) => ({
        label: item.name,
        type: "property" as const,
        detail: item.type,
      })),
    ];
  }
  if (/\$\w*$/.test(before)) {
    const names = new Set([...query.matchAll(/\$(\w+)/g)].map((item) => item[1] ?? ""));
    return [...names].map((name) => ({ label: `$${name}`, type: "variable" }));
  }
  const nodes = types.filter((type) => type.kind === "node");
  if (/:\s*\w*$/.test(before) || /\b(insert|upsert|update|delete)\s+\w*$/.test(before)) {
    const named = /:\s*\w*$/.test(before) ? nodes : types;
    return named.map((type) => ({ label: type.name, type: "class" }));
  }
  const edges = types.filter((type) => type.kind === "edge");
  return [
    ...KEYWORDS.map((label): Word => ({ label, type: "keyword" })),
    ...FUNCTIONS.map((label): Word => ({ label, type: "function" })),
    ...edges.map((edge): Word => ({
      label: edge.name.charAt(0).toLowerCase() + edge.name.slice(1),
      type: "class",
      detail: `${edge.source} → ${edge.target}`,
    })),
  ];
}
