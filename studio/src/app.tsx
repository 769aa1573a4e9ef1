import { useEffect, useRef, useState } from "preact/hooks";
import { call, Problem, setToken } from "./api";
import type { Place, View } from "./logic/address";
import { isBranch, stateParams } from "./logic/address";
import { showMoment } from "./logic/values";
import { ErrorBox, Spinner } from "./parts/basics";
import {
  asProblem,
  rootOf,
  SessionContext,
  useLoaded,
  usePlace,
  useSession,
  type Session,
} from "./session";
import type { BranchHead, CommitGraph, Schema, Snapshot, WhoAmI } from "./types";
import { Compare } from "./views/compare";
import { Data } from "./views/data";
import { Explore } from "./views/explore";
import { History } from "./views/history";
import { Operations } from "./views/operations";
import { Overview } from "./views/overview";
import { Query } from "./views/query";
import { SchemaView } from "./views/schema";

const NAMES: Record<View, string> = {
  overview: "Overview",
  schema: "Schema",
  query: "Query",
  explore: "Explore",
  history: "History",
  compare: "Compare",
  data: "Data",
  operations: "Operations",
};

const BODIES: Record<View, () => preact.JSX.Element> = {
  overview: Overview,
  schema: SchemaView,
  query: Query,
  explore: Explore,
  history: History,
  compare: Compare,
  data: Data,
  operations: Operations,
};

export function App() {
  const [me, setMe] = useState<WhoAmI | null>(null);
  const [problem, setProblem] = useState<Problem | null>(null);
  const [place, move] = usePlace();
  const enter = (): void => {
    call<WhoAmI>("/whoami").then(
      (found) => {
        setMe(found);
        setProblem(null);
      },
      (error: unknown) => setProblem(asProblem(error)),
    );
  };
  useEffect(enter, []);
  if (me === null && problem?.status === 401) {
    return <Login enter={enter} refused={problem.message !== "a bearer token is needed"} />;
  }
  if (me === null) {
    return (
      <main class="lonely">
        {problem === null ? <Spinner /> : <ErrorBox problem={problem} again={enter} />}
      </main>
    );
  }
  const graph = place.graph ?? (me.graphs.length === 1 ? (me.graphs[0]?.graph_id ?? null) : null);
  if (graph === null) {
    return <Graphs me={me} open={(name) => move({ ...place, graph: name })} />;
  }
  const leave = (): void => {
    setToken(null);
    setMe(null);
    enter();
  };
  return <OpenGraph key={graph} me={me} graph={graph} place={place} move={move} leave={leave} />;
}

function Login(props: { enter: () => void; refused: boolean }) {
  const field = useRef<HTMLInputElement>(null);
  return (
    <main class="lonely">
      <form
        class="card"
        onSubmit={(event) => {
          event.preventDefault();
          setToken(field.current?.value.trim() || null);
          props.enter();
        }}
      >
        <h1>OmniGraph Studio</h1>
        <p>This server asks for a token. It is kept in this page only, until you reload it.</p>
        {props.refused && (
          <p class="bad" role="alert">
            The server does not know this token.
          </p>
        )}
        <label>
          Token
          <input ref={field} type="password" autocomplete="off" required />
        </label>
        <button class="main">Enter</button>
      </form>
    </main>
  );
}

function Graphs(props: { me: WhoAmI; open: (name: string) => void }) {
  const field = useRef<HTMLInputElement>(null);
  return (
    <main class="lonely">
      <div class="card">
        <h1>Graphs</h1>
        {props.me.graphs.length > 0 ? (
          <ul class="choices">
            {props.me.graphs.map((graph) => (
              <li>
                <button onClick={() => props.open(graph.graph_id)}>{graph.graph_id}</button>
              </li>
            ))}
          </ul>
        ) : (
          <form
            onSubmit={(event) => {
              event.preventDefault();
              if (field.current?.value) props.open(field.current.value);
            }}
          >
            <p>You may not list the graphs of this server. Name the one you want.</p>
            <label>
              Graph
              <input ref={field} required />
            </label>
            <button class="main">Open</button>
          </form>
        )}
      </div>
    </main>
  );
}

interface OpenProps {
  me: WhoAmI;
  graph: string;
  place: Place;
  move: (place: Place, replace?: boolean) => void;
  leave: () => void;
}

const LOOK_AGAIN_MS = 5_000;
const FULL_LOOK = 12;

function OpenGraph(props: OpenProps) {
  const { me, graph, place, move } = props;
  const root = rootOf(graph);
  const [message, setMessage] = useState("");
  const frame = useLoaded(
    async (signal) => {
      const [heads, history] = await Promise.all([
        call<{ branches: BranchHead[] }>(`${root}/branches/heads`, { signal }).catch(
          async (error: unknown) => {
            // Who may not read main compares with the first branch there is.
            const list = await call<{ branches: string[] }>(`${root}/branches`, { signal });
            const base = list.branches[0];
            if (base === undefined || base === "main") throw error;
            return call<{ branches: BranchHead[] }>(`${root}/branches/heads`, { params: { base }, signal });
          },
        ),
        call<CommitGraph>(`${root}/history`, { signal }),
      ]);
      return { branches: heads.branches, history };
    },
    graph,
    true,
  );
  const branches = frame.value?.branches ?? [];
  const first = branches.find((item) => item.name === "main")?.name ?? branches[0]?.name ?? "main";
  const at = place.params["at"] || first;
  const schema = useLoaded(
    frame.value === null
      ? null
      : (signal) => call<Schema>(`${root}/schema/types`, { params: stateParams(at), signal }),
    `${graph} ${at} ${frame.value?.history.commits[0]?.graph_commit_id ?? ""}`,
    true,
  );
  useEffect(() => {
    document.title = `${NAMES[place.view]} · ${graph} · OmniGraph Studio`;
  }, [place.view, graph]);
  useEffect(() => {
    let turn = 0;
    // The head of the branch in sight is cheap to ask for; all branches are looked at less often.
    const look = async (): Promise<void> => {
      turn += 1;
      if (document.visibilityState !== "visible" || frame.loading) return;
      const branch = stateParams(at).branch ?? first;
      const known = frame.value?.history.heads[branch];
      const found = await call<Snapshot>(`${root}/snapshot`, { params: { branch } }).catch(() => null);
      if (found?.commit.graph_commit_id !== known || turn % FULL_LOOK === 0) frame.again();
    };
    const timer = setInterval(() => void look(), LOOK_AGAIN_MS);
    return () => clearInterval(timer);
  }, [frame.loading, at]);
  useEffect(() => {
    if (message === "") return undefined;
    const timer = setTimeout(() => setMessage(""), 8_000);
    return () => clearTimeout(timer);
  }, [message]);

  const session: Session = {
    me,
    graph,
    place,
    at,
    branches,
    history: frame.value?.history ?? { commits: [], heads: {}, tags: [] },
    schema: schema.value,
    types: schema.value?.types ?? [],
    root,
    ask: (path, ask) => call(`${root}${path}`, ask),
    go: (view, params = {}, hash = {}) => {
      const kept: Record<string, string> = place.params["at"] ? { at: place.params["at"] } : {};
      move({ graph, view, params: { ...kept, ...params }, hash });
    },
    refresh: frame.again,
    say: setMessage,
  };
  const Body = BODIES[place.view];
  const ready = frame.value !== null;
  return (
    <SessionContext.Provider value={session}>
      <a class="skip" href="#content">
        Skip to content
      </a>
      <Top leave={props.leave} open={(name) => move({ graph: name, view: place.view, params: {}, hash: {} })} />
      <div class="below">
        <Rail />
        <main id="content" tabIndex={-1}>
          {message !== "" && (
            <p class="said" role="status">
              {message}
            </p>
          )}
          {!ready && frame.loading && <Spinner />}
          {frame.error !== null && <ErrorBox problem={frame.error} again={frame.again} />}
          {ready && schema.error !== null && frame.error === null && (
            <ErrorBox problem={schema.error} again={schema.again} />
          )}
          {ready && (schema.error === null || schema.value !== null) && <Body key={place.view} />}
        </main>
      </div>
    </SessionContext.Provider>
  );
}

function Top(props: { leave: () => void; open: (graph: string) => void }) {
  const { me, graph, branches, history, at, place, go } = useSession();
  const known =
    branches.some((item) => item.name === at) || history.tags.some((tag) => `tag:${tag.name}` === at);
  const choose = (next: string): void => go(place.view, { ...place.params, at: next }, place.hash);
  return (
    <header class="top">
      <strong>OmniGraph Studio</strong>
      {me.graphs.length > 1 ? (
        <label>
          <span>Graph</span>
          <select value={graph} onChange={(event) => props.open(event.currentTarget.value)}>
            {me.graphs.map((item) => (
              <option value={item.graph_id}>{item.graph_id}</option>
            ))}
          </select>
        </label>
      ) : (
        <span class="graph-name">{graph}</span>
      )}
      <label>
        <span>State</span>
        <select value={at} onChange={(event) => choose(event.currentTarget.value)}>
          {!known && <option value={at}>commit {at.slice(0, 26)}</option>}
          <optgroup label="Branches">
            {branches.map((item) => (
              <option value={item.name}>{item.name}</option>
            ))}
          </optgroup>
          {history.tags.length > 0 && (
            <optgroup label="Tags">
              {history.tags.map((tag) => (
                <option value={`tag:${tag.name}`}>{tag.name}</option>
              ))}
            </optgroup>
          )}
        </select>
      </label>
      <Slider choose={choose} />
      {!isBranch(at) && <span class="past">looking at the past: read-only</span>}
      <span class="grow" />
      <span>{me.actor ?? "no login"}</span>
      {me.authenticated && (
        <button class="small" onClick={props.leave}>
          Leave
        </button>
      )}
    </header>
  );
}

/** Goes through the commits of the branch in sight, oldest on the left. */
function Slider(props: { choose: (at: string) => void }) {
  const { history, at, branches } = useSession();
  const line: string[] = [];
  const byId = new Map(history.commits.map((item) => [item.graph_commit_id, item]));
  const params = stateParams(at);
  const branch = branches.find((item) => item.name === params.branch);
  const [start, setStart] = useState<string | null>(null);
  const head = branch?.head.graph_commit_id ?? start ?? params.commit ?? null;
  useEffect(() => {
    if (branch !== undefined) setStart(branch.head.graph_commit_id);
  }, [branch?.head.graph_commit_id]);
  for (let id = head; id !== null && byId.has(id); id = byId.get(id)?.parent_commit_id ?? null) {
    line.unshift(id);
  }
  if (line.length < 2) return null;
  const here = branch === undefined ? line.indexOf(params.commit ?? "") : line.length - 1;
  const commit = byId.get(line[here] ?? "");
  return (
    <label class="slider">
      <span>Time</span>
      <input
        type="range"
        min={0}
        max={line.length - 1}
        value={here < 0 ? line.length - 1 : here}
        aria-valuetext={commit === undefined ? "unknown" : showMoment(commit.created_at)}
        onChange={(event) => {
          const id = line[Number(event.currentTarget.value)];
          const last = Number(event.currentTarget.value) === line.length - 1;
          const name = branches.find((item) => item.head.graph_commit_id === id)?.name;
          if (id !== undefined) props.choose(last && name !== undefined ? name : id);
        }}
      />
    </label>
  );
}

function Rail() {
  const { place, go } = useSession();
  return (
    <nav class="rail" aria-label="Views">
      {(Object.keys(NAMES) as View[]).map((view) => (
        <button
          class="plain"
          aria-current={view === place.view ? "page" : undefined}
          onClick={() => go(view)}
        >
          {NAMES[view]}
        </button>
      ))}
    </nav>
  );
}
