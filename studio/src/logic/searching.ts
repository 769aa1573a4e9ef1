/** Ways to find a node to begin with, as queries. */

import type { Json } from "../api";
import type { PropertyInfo, TypeInfo } from "../types";
import { readValue } from "./values";

export const FOUND_MAX = 30;

export type Way =
  | { kind: "contains" }
  | { kind: "words"; property: string }
  | { kind: "near"; property: string; size: number };

export const wayKey = (way: Way): string =>
  way.kind === "contains" ? "contains" : `${way.kind} ${way.property}`;

export function wayName(way: Way, type: TypeInfo): string {
  if (way.kind === "words") return `words in ${way.property}, best first`;
  if (way.kind === "near") return `${way.property} near a vector or a text`;
  return labelOf(type) === undefined ? "part of the id" : `part of ${type.label} or the id`;
}

/** What the schema lets be searched: the label, texts with an index, vectors. */
export function waysOf(type: TypeInfo): Way[] {
  const found: Way[] = [{ kind: "contains" }];
  for (const item of type.properties) {
    if (item.scalar === "String" && !item.is_list && item.indexed && (item.enum_values ?? []).length === 0) {
      found.push({ kind: "words", property: item.name });
    }
  }
  for (const item of type.properties) {
    if (item.scalar === "Vector") found.push({ kind: "near", property: item.name, size: item.vector_dim ?? 0 });
  }
  return found;
}

const labelOf = (type: TypeInfo): PropertyInfo | undefined =>
  type.properties.find((item) => item.name === type.label && item.scalar === "String" && !item.is_list);

/** The query of a way and what was typed; throws what is wrong with that. */
export function searchQuery(type: TypeInfo, way: Way, text: string): { query: string; params: Record<string, Json> } {
  const match = `$n: ${type.name}`;
  if (way.kind === "words") {
    const score = `bm25($n.${way.property}, $text)`;
    return {
      query: `query found($text: String) { match { ${match} } return { $n } order { ${score} } limit ${FOUND_MAX} }`,
      params: { text },
    };
  }
  if (way.kind === "near") {
    const isVector = text.trim().startsWith("[");
    const kind = isVector ? `Vector(${way.size})` : "String";
    const given = isVector ? readValue(text, "Vector", false) : text;
    if (isVector && (given as Json[]).length !== way.size) {
      throw new Error(`${way.property} has ${way.size} numbers, not ${(given as Json[]).length}`);
    }
    return {
      query: `query found($to: ${kind}) { match { ${match} } return { $n } order { nearest($n.${way.property}, $to) } limit ${FOUND_MAX} }`,
      params: { to: given },
    };
  }
  const named = labelOf(type);
  const also = named === undefined ? "" : ` or $n.${named.name} contains $text`;
  return {
    query: `query found($text: String) { match { ${match}  $n.id contains $text${also} } return { $n } order { $n.id } limit ${FOUND_MAX} }`,
    params: { text },
  };
}
