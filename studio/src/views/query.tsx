import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { isAbort, Problem, send, type Json, type Row } from "../api";
import { isBranch, stateBody } from "../logic/address";
import { toCsv, toTabs } from "../logic/csv";
import { writeExact } from "../logic/exact";
import { pageOf, turned } from "../logic/pages";
import { readValue, showValue } from "../logic/values";
import { download, ErrorBox, Panel, Spinner, Tabs } from "../parts/basics";
import { Editor } from "../parts/editor";
import { Picture, type Places } from "../parts/picture";
import { Table } from "../parts/table";
import { asProblem, useLoaded, useSession } from "../session";
import type { LintedQuery, LintReport, Parameter, ReadOutput, StoredQuery, Subgraph, TypeInfo } from "../types";

/** Texts that were run in this page; gone when it is. */
const ran: string[] = [];
const RAN_MAX = 30;

export function Query() {
  const { place, types } = useSession();
  const given = place.hash["q"];
  const begin = useMemo(() => given ?? example(types), []);
  return types.length === 0 ? <Spinner what="the schema" /> : <Desk begin={begin || example(types)} />;
}

function example(types: TypeInfo[]): string {
  const type = types.find((item) => item.kind === "node");
  if (type === undefined) return "";
  const names = type.properties.filter((item) => !["Blob", "Vector"].includes(item.scalar));
  const columns = ["$n", ...names.slice(0, 4).map((item) => `$n.${item.name}`)].join(", ");
  return `query some() {\n    match { $n: ${type.name} }\n    return { ${columns} }\n    limit 100\n}\n`;
}

interface Outcome {
  result: ReadOutput | null;
  written: Row | null;
  explain: ReadOutput["explain"] | null;
  /** What was asked, to ask it again in another form. */
  asked: object & { query?: string; stored?: string; body?: object };
  ms: number;
}

function Desk(props: { begin: string }) {
  const { ask, at, types, place, go, refresh, say } = useSession();
  const [opened, setOpened] = useState({ text: props.begin, version: 0 });
  const text = useRef(props.begin);
  const [queries, setQueries] = useState<LintedQuery[]>([]);
  const [chosen, setChosen] = useState<string | null>(place.params["name"] ?? null);
  const [fields, setFields] = useState<Record<string, string>>(fieldsOf(place.hash["p"]));
  const [outcome, setOutcome] = useState<Outcome | null>(null);
  const [problem, setProblem] = useState<Problem | null>(null);
  const [tab, setTab] = useState("Table");
  const [running, setRunning] = useState<AbortController | null>(null);
  const linted = useRef<{ text: string; at: string; queries: LintedQuery[] } | null>(null);
  const query = queries.find((item) => item.name === chosen) ?? queries[0];

  const open = (next: string): void => {
    text.current = next;
    setOpened((old) => ({ text: next, version: old.version + 1 }));
    setOutcome(null);
    setProblem(null);
  };
  // Back and forward lead to texts that were run before.
  useEffect(() => {
    const given = place.hash["q"];
    if (given === undefined || given === text.current) return;
    open(given);
    setChosen(place.params["name"] ?? null);
    setFields(fieldsOf(place.hash["p"]));
  }, [place.hash["q"], place.hash["p"], place.params["name"]]);
  const lint = async (source: string, signal: AbortSignal) => {
    const report = await ask<LintReport>("/lint", { body: { source, ...stateBody(at) }, signal });
    linted.current = { text: source, at, queries: report.queries };
    if (!signal.aborted) setQueries(report.queries);
    return report.diagnostics;
  };
  /** What is known of the text; what was typed a moment ago may not have been looked at yet. */
  const known = async (signal: AbortSignal): Promise<LintedQuery[]> => {
    if (linted.current?.text !== text.current || linted.current.at !== at) await lint(text.current, signal);
    return linted.current?.queries ?? [];
  };
  const run = async (explain: boolean): Promise<void> => {
    running?.abort();
    const stop = new AbortController();
    setRunning(stop);
    setProblem(null);
    const begun = performance.now();
    try {
      const read = await known(stop.signal);
      const now = read.find((item) => item.name === chosen) ?? read[0];
      const params = valuesOf(now?.parameters ?? [], fields);
      remember(text.current);
      go("query", chosen === null ? {} : { name: chosen }, {
        q: text.current,
        ...(Object.keys(fields).length > 0 ? { p: JSON.stringify(fields) } : {}),
      });
      const body = { query: text.current, name: now?.name ?? null, params };
      if (now?.mutation) {
        if (!isBranch(at)) throw new Problem(0, { error: "the past cannot be changed: choose a branch" });
        const written = await ask<Row>("/mutate", { body: { ...body, ...stateBody(at) }, signal: stop.signal });
        setOutcome({ result: null, written, explain: null, asked: body, ms: performance.now() - begun });
        say("The mutation was committed.");
        refresh();
        return;
      }
      const found = await ask<ReadOutput>("/query", {
        body: { ...body, ...stateBody(at), ...(explain ? { explain: true } : { form: "typed" }) },
        signal: stop.signal,
      });
      setOutcome({
        result: explain ? null : found,
        written: null,
        explain: found.explain ?? null,
        asked: body,
        ms: performance.now() - begun,
      });
      if (explain) setTab("Explain");
      else if (tab === "Explain") setTab("Table");
    } catch (error) {
      setOutcome(null);
      setProblem(isAbort(error) ? new Problem(0, { error: "The query was cancelled." }) : asProblem(error));
    } finally {
      setRunning((old) => (old === stop ? null : old));
    }
  };
  const turn = (pages: number): void => {
    open(turned(text.current, pages));
    void run(false);
  };
  useEffect(() => () => running?.abort(), []);

  return (
    <div class="stack">
      <h1>Query</h1>
      <div class="editor-box">
        <Editor
          text={opened.text}
          version={opened.version}
          label="Query text"
          types={types}
          lint={lint}
          onChange={(next) => {
            text.current = next;
          }}
          onRun={() => void run(false)}
        />
      </div>
      <div class="row">
        {queries.length > 1 && (
          <label>
            Query
            <select value={query?.name ?? ""} onChange={(event) => setChosen(event.currentTarget.value)}>
              {queries.map((item) => (
                <option value={item.name}>{item.name}</option>
              ))}
            </select>
          </label>
        )}
        {(query?.parameters ?? []).map((item) => (
          <Field item={item} value={fields[item.name] ?? ""} set={(value) => setFields({ ...fields, [item.name]: value })} />
        ))}
        <button class="main" disabled={running !== null} onClick={() => void run(false)}>
          {query?.mutation ? "Run and commit" : "Run"} <kbd>Ctrl ↵</kbd>
        </button>
        <button disabled={running !== null || query?.mutation === true} onClick={() => void run(true)}>
          Explain
        </button>
        {running !== null && <button onClick={() => running.abort()}>Cancel</button>}
        <Opener open={open} />
      </div>
      <Stored done={setOutcome} failed={setProblem} />
      {running !== null && <Spinner what="the answer" />}
      {problem !== null && <ErrorBox problem={problem} />}
      {outcome !== null && (
        <Answer outcome={outcome} tab={tab} choose={setTab} turn={queries.length === 1 ? turn : null} />
      )}
    </div>
  );
}

/** Queries that the server keeps under a name; their texts stay there. */
function Stored(props: { done: (outcome: Outcome) => void; failed: (problem: Problem | null) => void }) {
  const { ask, at, graph, refresh } = useSession();
  const list = useLoaded((signal) => ask<{ queries: StoredQuery[] }>("/queries", { signal }), graph);
  const [name, setName] = useState("");
  const [fields, setFields] = useState<Record<string, string>>({});
  const queries = list.value?.queries ?? [];
  const query = queries.find((item) => item.name === name);
  const run = async (): Promise<void> => {
    if (query === undefined) return;
    const begun = performance.now();
    try {
      const body = { params: valuesOf(query.params, fields), ...storedState(at) };
      const found = await ask<ReadOutput & Row>(`/queries/${encodeURIComponent(query.name)}`, { body });
      const common = { explain: null, asked: { stored: query.name, body }, ms: performance.now() - begun };
      props.failed(null);
      props.done({ ...common, result: query.mutation ? null : found, written: query.mutation ? found : null });
      if (query.mutation) refresh();
    } catch (error) {
      props.failed(asProblem(error));
    }
  };
  if (queries.length === 0) return null;
  return (
    <form
      class="row"
      aria-label="Stored queries"
      onSubmit={(event) => {
        event.preventDefault();
        void run();
      }}
    >
      <label>
        Stored
        <select
          value={name}
          onChange={(event) => {
            setName(event.currentTarget.value);
            setFields({});
          }}
        >
          <option value="">choose…</option>
          {queries.map((item) => (
            <option value={item.name}>{item.name}</option>
          ))}
        </select>
      </label>
      {(query?.params ?? []).map((item) => (
        <Field item={item} value={fields[item.name] ?? ""} set={(value) => setFields({ ...fields, [item.name]: value })} />
      ))}
      {query !== undefined && <button>{query.mutation ? "Run stored and commit" : "Run stored"}</button>}
      {query?.description !== undefined && <span class="muted">{query.description}</span>}
    </form>
  );
}

/** A stored query takes a branch or a commit; a tag stands for neither. */
function storedState(at: string): { branch?: string; snapshot?: string } {
  const { tag, ...rest } = stateBody(at);
  if (tag !== undefined) throw new Error("stored queries run on branches and commits, not on tags");
  return rest;
}

function fieldsOf(text: string | undefined): Record<string, string> {
  try {
    return text === undefined ? {} : (JSON.parse(text) as Record<string, string>);
  } catch {
    return {};
  }
}

function remember(text: string): void {
  const known = ran.indexOf(text);
  if (known >= 0) ran.splice(known, 1);
  ran.unshift(text);
  ran.length = Math.min(ran.length, RAN_MAX);
}

function valuesOf(parameters: Parameter[], fields: Record<string, string>): Record<string, Json> {
  const found: Record<string, Json> = {};
  for (const item of parameters) {
    const text = fields[item.name] ?? "";
    if (text === "" && item.nullable) continue;
    try {
      found[item.name] = readValue(text, item.item_kind ?? item.kind, item.kind === "list");
    } catch (error) {
      throw new Error(`$${item.name}: ${error instanceof Error ? error.message : "not understood"}`);
    }
  }
  return found;
}

function Field(props: { item: Parameter; value: string; set: (value: string) => void }) {
  const { item } = props;
  const kind = item.kind === "list" ? `list of ${item.item_kind}` : item.kind;
  return (
    <label>
      ${item.name}: {kind}
      {item.nullable ? "?" : ""}
      <input
        type="text"
        placeholder={item.kind === "date" ? "2025-03-01" : ""}
        value={props.value}
        onInput={(event) => props.set(event.currentTarget.value)}
      />
    </label>
  );
}

function Opener(props: { open: (text: string) => void }) {
  if (ran.length === 0) return null;
  return (
    <label>
      Earlier
      <select
        value=""
        onChange={(event) => {
          const found = ran[Number(event.currentTarget.value)];
          if (found !== undefined) props.open(found);
        }}
      >
        <option value="">choose…</option>
        {ran.map((text, index) => (
          <option value={String(index)}>{text.replace(/\s+/g, " ").slice(0, 60)}</option>
        ))}
      </select>
    </label>
  );
}

interface AnswerProps {
  outcome: Outcome;
  tab: string;
  choose: (name: string) => void;
  /** Asks for a page before or after this one; null where the text does not tell which. */
  turn: ((pages: number) => void) | null;
}

function Answer(props: AnswerProps) {
  const { outcome, tab } = props;
  if (outcome.written !== null) {
    return (
      <Panel title="Committed">
        <pre>{writeExact(outcome.written, 2)}</pre>
      </Panel>
    );
  }
  if (outcome.explain) return <Explained explain={outcome.explain} />;
  const result = outcome.result;
  if (result === null) return null;
  const pictured = nodesOf(result).length > 0;
  const names = ["Table", ...(pictured ? ["Graph"] : []), "Text"];
  const now = names.includes(tab) ? tab : "Table";
  return (
    <section aria-label="Answer" class="stack">
      <div class="row">
        <Tabs names={names} now={now} choose={props.choose} />
        <span class="muted" data-testid="row-count">
          {result.row_count.toLocaleString("en")} rows, {Math.round(outcome.ms)} ms
        </span>
        {props.turn !== null && <Pages outcome={outcome} result={result} turn={props.turn} />}
        <Downloads result={result} asked={outcome.asked} />
      </div>
      {now === "Table" && <Rows result={result} />}
      {now === "Graph" && <Drawn result={result} />}
      {now === "Text" && <pre class="block">{writeExact(result.rows.slice(0, 500), 2)}</pre>}
    </section>
  );
}

function Pages(props: { outcome: Outcome; result: ReadOutput; turn: (pages: number) => void }) {
  const page = pageOf(props.outcome.asked.query ?? "");
  if (page === null || (page.offset === 0 && props.result.row_count < page.limit)) return null;
  return (
    <span class="row">
      <button class="small" disabled={page.offset === 0} onClick={() => props.turn(-1)}>
        Previous page
      </button>
      <button class="small" disabled={props.result.row_count < page.limit} onClick={() => props.turn(1)}>
        Next page
      </button>
    </span>
  );
}

function Downloads(props: { result: ReadOutput; asked: Outcome["asked"] }) {
  const { root, at, say } = useSession();
  const { result } = props;
  const columns = result.columns ?? [];
  const again = async (kind: string, ending: string): Promise<void> => {
    try {
      const { stored, body } = props.asked;
      const path = stored === undefined ? "/query" : `/queries/${encodeURIComponent(stored)}`;
      const response = await send(`${root}${path}`, {
        body: stored === undefined ? { ...props.asked, ...stateBody(result.graph_commit_id ?? at) } : body,
        headers: { Accept: kind },
      });
      download(`${result.query_name}.${ending}`, kind, await response.blob());
    } catch (error) {
      say(asProblem(error).message);
    }
  };
  const copy = async (): Promise<void> => {
    try {
      await navigator.clipboard.writeText(toTabs(columns, result.rows));
      say(`${result.row_count.toLocaleString("en")} rows were copied.`);
    } catch {
      say("The browser does not let this page copy: it needs https or this machine's own address.");
    }
  };
  return (
    <span class="row">
      <button class="small" onClick={() => void copy()}>
        Copy
      </button>
      <button class="small" onClick={() => download(`${result.query_name}.csv`, "text/csv", toCsv(columns, result.rows))}>
        CSV
      </button>
      <button
        class="small"
        onClick={() => download(`${result.query_name}.json`, "application/json", writeExact(result.rows, 1))}
      >
        JSON
      </button>
      <button class="small" onClick={() => void again("application/vnd.apache.parquet", "parquet")}>
        Parquet
      </button>
      <button class="small" onClick={() => void again("application/vnd.apache.arrow.stream", "arrow")}>
        Arrow
      </button>
    </span>
  );
}

function Rows(props: { result: ReadOutput }) {
  const { go } = useSession();
  const { result } = props;
  const [sort, setSort] = useState<{ column: string; down: boolean } | null>(null);
  const rows = useMemo(() => {
    if (sort === null) return result.rows;
    const found = [...result.rows].sort((a, b) => compare(a[sort.column], b[sort.column]));
    return sort.down ? found.reverse() : found;
  }, [result, sort]);
  return (
    <Table
      label="Rows"
      rows={rows}
      columns={(result.columns ?? []).map((name, index) => {
        const entity = result.column_types?.[index]?.entity;
        return {
          name,
          sorted: sort?.column === name ? (sort.down ? "descending" : "ascending") : undefined,
          sort: () => setSort({ column: name, down: sort?.column === name && !sort.down }),
          cell: (row: Row) =>
            entity?.kind === "node" && typeof row[name] === "string" ? (
              <button
                class="plain link"
                onClick={() => go("explore", { type: entity.type_name, id: String(row[name]) })}
              >
                {showValue(row[name])}
              </button>
            ) : (
              showValue(row[name])
            ),
        };
      })}
    />
  );
}

function compare(a: Json | undefined, b: Json | undefined): number {
  if (a === b) return 0;
  if (a === null || a === undefined) return -1;
  if (b === null || b === undefined) return 1;
  if (isNumber(a) && isNumber(b)) return a < b ? -1 : 1;
  return String(a) < String(b) ? -1 : 1;
}

const isNumber = (value: Json): value is number | bigint =>
  typeof value === "number" || typeof value === "bigint";

/** Type and id of each node the rows speak of, once. */
function nodesOf(result: ReadOutput): [string, string][] {
  const found = new Map<string, [string, string]>();
  (result.columns ?? []).forEach((name, index) => {
    const entity = result.column_types?.[index]?.entity;
    if (entity?.kind !== "node") return;
    for (const row of result.rows) {
      const id = row[name];
      if (typeof id === "string") found.set(`${entity.type_name}/${id}`, [entity.type_name, id]);
    }
  });
  return [...found.values()];
}

/** Nodes and edges are asked for when somebody wants to see them: rows come sooner without. */
function Drawn(props: { result: ReadOutput }) {
  const { types, go, ask, at } = useSession();
  const { result } = props;
  const places = useRef<Places>(new Map());
  const [selected, setSelected] = useState<string | null>(null);
  const nodes = useMemo(() => nodesOf(result), [result]);
  const state = result.graph_commit_id ?? at;
  const found = useLoaded(
    (signal) => ask<Subgraph>("/subgraph", { body: { nodes, ...stateBody(state) }, signal }),
    `${state} ${nodes.join("\n")}`,
  );
  if (found.error !== null) return <ErrorBox problem={found.error} />;
  const graph = found.value;
  if (graph === null) return <Spinner what="the picture" />;
  const open = (key: string): void => {
    const node = graph.nodes.find((item) => `${item.type}/${item.id}` === key);
    if (node !== undefined) go("explore", { type: node.type, id: node.id });
  };
  return (
    <div class="stack">
      {graph.truncated && <p class="muted">Only a part is drawn: there is more than a picture can tell.</p>}
      <Picture
        label="Picture of the answer"
        types={types.filter((type) => type.kind === "node").map((type) => type.name)}
        nodes={graph.nodes.map((node) => ({ key: `${node.type}/${node.id}`, type: node.type, label: node.label }))}
        edges={graph.edges.map((edge) => ({
          key: `${edge.edge}/${edge.id}`,
          from: `${edge.source_type}/${edge.from}`,
          to: `${edge.target_type}/${edge.to}`,
          label: edge.edge,
        }))}
        places={places.current}
        selected={selected}
        onSelect={setSelected}
        onExpand={open}
      />
      {selected !== null && (
        <p>
          {selected} <button onClick={() => open(selected)}>Explore it</button>
        </p>
      )}
    </div>
  );
}

function Explained(props: { explain: NonNullable<ReadOutput["explain"]> }) {
  const { explain } = props;
  const most = Math.max(1, ...explain.stages.map((stage) => stage.ms));
  return (
    <Panel title="How it ran">
      <p>
        {explain.row_count.toLocaleString("en")} rows in {explain.ms.toFixed(1)} ms
      </p>
      <pre class="block">{explain.plan.join("\n")}</pre>
      <table>
        <thead>
          <tr>
            <th scope="col">Step</th>
            <th scope="col" class="number">Rows</th>
            <th scope="col" class="number">Expected</th>
            <th scope="col" class="number">ms</th>
            <th scope="col">Share of time</th>
          </tr>
        </thead>
        <tbody>
          {explain.stages.map((stage) => (
            <tr>
              <td>{stage.step}</td>
              <td class="number">{stage.rows.toLocaleString("en")}</td>
              <td class="number">{stage.estimated_rows?.toLocaleString("en") ?? "—"}</td>
              <td class="number">{stage.ms.toFixed(2)}</td>
              <td>
                <meter min={0} max={most} value={stage.ms} aria-label={`${stage.ms.toFixed(1)} ms`} />
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </Panel>
  );
}

