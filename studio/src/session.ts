/** What all views share: where we are, the graph that is open, and how to go elsewhere. */

import { createContext } from "preact";
import { useContext, useEffect, useState } from "preact/hooks";
import { call, isAbort, Problem, type Ask } from "./api";
import { formatPlace, parsePlace, type Place, type View } from "./logic/address";
import type { BranchHead, CommitGraph, Schema, TypeInfo, WhoAmI } from "./types";

export interface Session {
  me: WhoAmI;
  graph: string;
  place: Place;
  /** The state that is looked at: a branch, a commit id, or `tag:NAME`. */
  at: string;
  branches: BranchHead[];
  history: CommitGraph;
  schema: Schema | null;
  types: TypeInfo[];
  go: (view: View, params?: Record<string, string>, hash?: Record<string, string>) => void;
  /** Ask the API about the open graph. */
  ask: <T>(path: string, ask?: Ask) => Promise<T>;
  root: string;
  /** Read branches and commits anew, after a write. */
  refresh: () => void;
  say: (message: string) => void;
}

export const SessionContext = createContext<Session | null>(null);

export function useSession(): Session {
  const found = useContext(SessionContext);
  if (found === null) throw new Error("there is no open graph");
  return found;
}

export function here(): Place {
  return parsePlace(location.pathname, location.search, location.hash);
}

export function usePlace(): [Place, (place: Place, replace?: boolean) => void] {
  const [place, setPlace] = useState(here);
  useEffect(() => {
    const moved = (): void => setPlace(here());
    addEventListener("popstate", moved);
    return () => removeEventListener("popstate", moved);
  }, []);
  const move = (next: Place, replace = false): void => {
    const address = formatPlace(next);
    if (replace) history.replaceState(null, "", address);
    else history.pushState(null, "", address);
    setPlace(next);
  };
  return [place, move];
}

export interface Loaded<T> {
  value: T | null;
  error: Problem | null;
  loading: boolean;
  again: () => void;
}

/** Loads something, and again when a key changes; what is on its way then is given up. */
export function useLoaded<T>(
  load: ((signal: AbortSignal) => Promise<T>) | null,
  key: string,
  keep = false,
): Loaded<T> {
  const [state, setState] = useState<{ value: T | null; error: Problem | null; loading: boolean }>({
    value: null,
    error: null,
    loading: load !== null,
  });
  const [turn, setTurn] = useState(0);
  useEffect(() => {
    if (load === null) {
      setState({ value: null, error: null, loading: false });
      return undefined;
    }
    const stop = new AbortController();
    setState((old) => ({ ...old, loading: true }));
    load(stop.signal).then(
      (value) => {
        if (!stop.signal.aborted) setState({ value, error: null, loading: false });
      },
      (error: unknown) => {
        if (stop.signal.aborted || isAbort(error)) return;
        // What was there may stay in sight while a server restarts.
        setState((old) => ({ value: keep ? old.value : null, error: asProblem(error), loading: false }));
      },
    );
    return () => stop.abort();
  }, [key, turn]);
  return { ...state, again: () => setTurn((old) => old + 1) };
}

export function asProblem(error: unknown): Problem {
  if (error instanceof Problem) return error;
  return new Problem(0, { error: error instanceof Error ? error.message : String(error) });
}

export function rootOf(graph: string): string {
  return `/graphs/${encodeURIComponent(graph)}`;
}

export { call };
