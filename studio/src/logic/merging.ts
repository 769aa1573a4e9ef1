/** From the choices of a reviewer to what a merge is told. */

import type { Json, Row } from "../api";
import type { Conflict, Image } from "../types";
import { writeExact } from "./exact";

export type Side = "ours" | "theirs";
/** What is chosen for one property: a side, or a value of one's own. */
export type Choice = { side: Side } | { value: Json };
/** For one conflict: one side for all of it, or a choice for each property. */
export interface Decision {
  whole: Side | null;
  properties: Record<string, Choice>;
}
export type Decisions = Record<string, Decision>;

export const UNDECIDED: Decision = { whole: null, properties: {} };

export function typeOf(conflict: Conflict): string {
  return conflict.table_key.slice(conflict.table_key.indexOf(":") + 1);
}

export function conflictKey(conflict: Conflict): string {
  return `${typeOf(conflict)}/${conflict.row_id ?? ""}`;
}

export function dataOf(image: Image | null | undefined): Row {
  return image?.data ?? image?.properties ?? {};
}

/** The nodes an edge joins, in whichever form its image is. */
export function endsOf(image: Image | null | undefined): { from: string; to: string } {
  const { from = "", to = "" } = image?.endpoints ?? { from: image?.from, to: image?.to };
  return { from, to };
}

/** Whether single properties can be chosen: only where both sides have the entity. */
export function isByProperty(conflict: Conflict): boolean {
  return conflict.ours !== null && conflict.theirs !== null && conflict.row_id !== null;
}

/** The properties both sides have that are not the same on them. */
export function differing(conflict: Conflict): string[] {
  const [ours, theirs] = [dataOf(conflict.ours), dataOf(conflict.theirs)];
  const names = new Set([...Object.keys(ours), ...Object.keys(theirs)]);
  names.delete("id");
  return [...names].filter((name) => !same(ours[name], theirs[name])).sort();
}

/** The properties only one side changed: they need no choice, and this side is proposed. */
export function proposal(conflict: Conflict, name: string): Side | null {
  if (conflict.base === null) return null;
  const base = dataOf(conflict.base)[name];
  if (same(base, dataOf(conflict.ours)[name])) return "theirs";
  if (same(base, dataOf(conflict.theirs)[name])) return "ours";
  return null;
}

export function same(a: Json | undefined, b: Json | undefined): boolean {
  return writeExact(a ?? null) === writeExact(b ?? null);
}

export function isDecided(conflict: Conflict, decision: Decision): boolean {
  if (decision.whole !== null) return true;
  if (!isByProperty(conflict)) return false;
  const names = differing(conflict);
  return (
    names.length > 0 &&
    names.every((name) => name in decision.properties || proposal(conflict, name) !== null)
  );
}

/** The values of one conflict after all choices; null while one is missing. */
export function chosenValues(conflict: Conflict, decision: Decision): Row | null {
  if (!isDecided(conflict, decision)) return null;
  const found: Row = {};
  for (const name of differing(conflict)) {
    const side = proposal(conflict, name);
    const choice = decision.properties[name] ?? (side === null ? null : { side });
    if (choice === null) return null;
    if ("value" in choice) found[name] = choice.value;
    else found[name] = dataOf(choice.side === "ours" ? conflict.ours : conflict.theirs)[name] ?? null;
  }
  return found;
}

/** The `resolve` of a merge request. Conflicts without a decision are left out. */
export function resolveOf(conflicts: Conflict[], decisions: Decisions): Record<string, Json> {
  const found: Record<string, Json> = {};
  for (const conflict of conflicts) {
    const key = conflictKey(conflict);
    const decision = decisions[key] ?? UNDECIDED;
    if (decision.whole !== null) {
      found[key] = decision.whole;
      continue;
    }
    const values = chosenValues(conflict, decision);
    if (values !== null) found[key] = values;
  }
  return found;
}
