/** The address of a view: graph, view, state and choices in the path and query, text after `#`. */

export const VIEWS = [
  "overview",
  "schema",
  "query",
  "explore",
  "history",
  "compare",
  "data",
  "operations",
] as const;
export type View = (typeof VIEWS)[number];

export interface Place {
  graph: string | null;
  view: View;
  params: Record<string, string>;
  /** Query text and parameters: what stands after `#` is never sent to a server. */
  hash: Record<string, string>;
}

const PREFIX = "/studio/";

export function parsePlace(path: string, search: string, hash: string): Place {
  const parts = path.startsWith(PREFIX) ? path.slice(PREFIX.length).split("/") : [];
  const graph = parts[0] === "g" && parts[1] ? safeDecode(parts[1]) : null;
  const named = parts[0] === "g" ? parts[2] : parts[0];
  const view = VIEWS.find((item) => item === named) ?? "overview";
  return {
    graph,
    view,
    params: Object.fromEntries(new URLSearchParams(search)),
    hash: Object.fromEntries(new URLSearchParams(hash.replace(/^#/, ""))),
  };
}

export function formatPlace(place: Place): string {
  const head = place.graph === null ? "" : `g/${encodeURIComponent(place.graph)}/`;
  return `${PREFIX}${head}${place.view}${tail("?", place.params)}${tail("#", place.hash)}`;
}

function tail(mark: string, values: Record<string, string>): string {
  const kept = Object.entries(values).filter(([, value]) => value !== "");
  const text = new URLSearchParams(kept).toString();
  return text ? mark + text : "";
}

function safeDecode(text: string): string | null {
  try {
    return decodeURIComponent(text);
  } catch {
    return null;
  }
}

const ULID = /^[0-9A-HJKMNP-TV-Z]{26}$/;

/** Which parameters of the API mean the state that `at` names. */
export function stateParams(at: string): { branch?: string; commit?: string; tag?: string } {
  if (at === "") return { branch: "main" };
  if (at.startsWith("tag:")) return { tag: at.slice(4) };
  if (ULID.test(at)) return { commit: at };
  return { branch: at };
}

/** The same for bodies, where a commit is a `snapshot`. */
export function stateBody(at: string): { branch?: string; snapshot?: string; tag?: string } {
  const { commit, ...rest } = stateParams(at);
  return commit === undefined ? rest : { snapshot: commit };
}

export function isBranch(at: string): boolean {
  return stateParams(at).branch !== undefined;
}
