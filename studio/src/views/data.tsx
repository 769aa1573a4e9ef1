import { useMemo, useState } from "preact/hooks";
import { send, type Problem, type Row } from "../api";
import { isBranch, stateBody } from "../logic/address";
import { writeExact } from "../logic/exact";
import { atFile, guess, parseCsv, targetsOf, toLines, type Csv, type Reject } from "../logic/mapping";
import { shorten } from "../logic/values";
import { download, ErrorBox, Panel, Spinner } from "../parts/basics";
import { asProblem, useSession } from "../session";
import type { TypeInfo } from "../types";

/** More is a matter for `omnigraph load`: the page holds the file in memory. */
const FILE_BYTES_MAX = 30 * 1024 * 1024;

export function Data() {
  return (
    <div class="stack">
      <h1>Data</h1>
      <Load />
      <Export />
    </div>
  );
}

interface Made {
  text: string;
  /** Where in the file each line of the text comes from; null where the text is the file. */
  lines: number[] | null;
  rejects: Reject[];
}

function Load() {
  const { at, ask, refresh, say, types } = useSession();
  const [text, setText] = useState("");
  const [name, setName] = useState("");
  const [mode, setMode] = useState("merge");
  const [form, setForm] = useState("lines");
  const [typeName, setTypeName] = useState("");
  const [chosen, setChosen] = useState<string[]>([]);
  const [without, setWithout] = useState<Set<number>>(new Set());
  const [tried, setTried] = useState<Row | null>(null);
  const [rejects, setRejects] = useState<Row[]>([]);
  const [problem, setProblem] = useState<Problem | null>(null);
  const [busy, setBusy] = useState(false);
  const type = types.find((item) => item.name === typeName) ?? types[0];
  const csv = useMemo(() => readCsv(form === "csv" ? text : null), [form, text]);
  const forget = (): void => {
    setTried(null);
    setRejects([]);
    setProblem(null);
  };
  const choose = (next: TypeInfo | undefined, columns: string[]): void => {
    setTypeName(next?.name ?? "");
    setChosen(next === undefined ? [] : guess(columns, next));
    setWithout(new Set());
    forget();
  };
  const take = (next: string, csvText: boolean): void => {
    setText(next);
    setForm(csvText ? "csv" : "lines");
    const found = csvText ? readCsv(next) : null;
    choose(type, found instanceof Error ? [] : (found?.columns ?? []));
  };
  const pick = async (file: File | undefined): Promise<void> => {
    forget();
    if (file === undefined) return;
    if (file.size > FILE_BYTES_MAX) {
      setProblem(asProblem(new Error("The file is too large for a browser: use `omnigraph load`.")));
      return;
    }
    setName(file.name);
    take(await file.text(), file.name.toLowerCase().endsWith(".csv"));
  };
  const make = (skip: Set<number>): Made => {
    if (csv === null) return { text, lines: null, rejects: [] };
    if (csv instanceof Error) throw csv;
    if (type === undefined) throw new Error("choose a type");
    return toLines(csv, type, chosen, skip);
  };
  const run = async (dry: boolean, skip = without): Promise<void> => {
    setBusy(true);
    forget();
    let made: Made | null = null;
    try {
      made = make(skip);
      if (made.rejects.length > 0) {
        setRejects(made.rejects.map((item) => ({ line: item.line, type: type?.name ?? "", message: item.message })));
        return;
      }
      const found = await ask<Row>("/load/ndjson", {
        params: { ...stateBody(at), mode, dry_run: dry },
        text: made.text,
      });
      setTried(dry ? found : null);
      if (!dry) {
        say(`${name || "The lines"} was loaded into ${at}.`);
        refresh();
      }
    } catch (error) {
      const told = asProblem(error);
      const found = told.body["data_errors"] as { problems?: Row[] } | undefined;
      setRejects(atFile(found?.problems ?? [], made?.lines ?? null));
      setProblem((found?.problems ?? []).length > 0 ? null : told);
    } finally {
      setBusy(false);
    }
  };
  const leaveOut = (): void => {
    const lines = rejects.flatMap((item) => (typeof item["line"] === "number" ? [item["line"]] : []));
    const skip = new Set([...without, ...lines]);
    setWithout(skip);
    void run(true, skip);
  };
  if (!isBranch(at)) return <Panel title="Load">The past cannot be changed: choose a branch.</Panel>;
  return (
    <Panel title={`Load into ${at}`}>
      <p>
        JSON lines, as an export writes them: <code>{`{"type": "Person", "data": {…}}`}</code>, or CSV with a
        line of names, for one type. Try it first; all of it is one commit, or nothing is written.
      </p>
      <div class="row">
        <label>
          File
          <input
            type="file"
            accept=".jsonl,.ndjson,.json,.csv"
            onChange={(event) => void pick(event.currentTarget.files?.[0])}
          />
        </label>
        <label>
          Form
          <select value={form} onChange={(event) => take(text, event.currentTarget.value === "csv")}>
            <option value="lines">JSON lines</option>
            <option value="csv">CSV</option>
          </select>
        </label>
        <label>
          What happens to known ids
          <select value={mode} onChange={(event) => setMode(event.currentTarget.value)}>
            <option value="merge">merge: they are replaced</option>
            <option value="append">append: they are refused</option>
            <option value="overwrite">overwrite: each type in the file is replaced</option>
          </select>
        </label>
      </div>
      <label class="wide">
        Lines
        <textarea
          rows={6}
          value={text.length > 100_000 ? "(a large file)" : text}
          onInput={(event) => take(event.currentTarget.value, form === "csv")}
        />
      </label>
      {csv instanceof Error && text !== "" && <p class="bad">{csv.message}</p>}
      {csv !== null && !(csv instanceof Error) && (
        <Mapping
          csv={csv}
          type={type}
          chosen={chosen}
          chooseType={(next) => choose(next, csv.columns)}
          chooseColumns={(next) => {
            setChosen(next);
            forget();
          }}
        />
      )}
      <div class="row">
        <button class="main" disabled={busy || text === "" || csv instanceof Error} onClick={() => void run(true)}>
          Try
        </button>
        <button disabled={busy || tried === null} onClick={() => void run(false)}>
          Load
        </button>
        {without.size > 0 && <span class="muted">{without.size === 1 ? "One row is" : `${without.size} rows are`} left out</span>}
      </div>
      {busy && <Spinner />}
      {tried !== null && (
        <div role="status">
          <p>It fits. This is what would be written:</p>
          <pre class="block">{writeExact(tried, 2)}</pre>
        </div>
      )}
      {problem !== null && <ErrorBox problem={problem} />}
      {rejects.length > 0 && <Rejected problems={rejects} leaveOut={csv === null ? null : leaveOut} />}
    </Panel>
  );
}

function readCsv(text: string | null): Csv | Error | null {
  if (text === null) return null;
  try {
    return parseCsv(text);
  } catch (error) {
    return error instanceof Error ? error : new Error(String(error));
  }
}

function Mapping(props: {
  csv: Csv;
  type: TypeInfo | undefined;
  chosen: string[];
  chooseType: (type: TypeInfo | undefined) => void;
  chooseColumns: (chosen: string[]) => void;
}) {
  const { types } = useSession();
  const { csv, type, chosen } = props;
  return (
    <div>
      <label>
        Each row is a
        <select
          value={type?.name ?? ""}
          onChange={(event) => props.chooseType(types.find((item) => item.name === event.currentTarget.value))}
        >
          {types.map((item) => (
            <option value={item.name}>
              {item.kind} {item.name}
            </option>
          ))}
        </select>
      </label>
      <table>
        <thead>
          <tr>
            <th scope="col">Column</th>
            <th scope="col">First value</th>
            <th scope="col">Becomes</th>
          </tr>
        </thead>
        <tbody>
          {csv.columns.map((column, index) => (
            <tr>
              <td>{column}</td>
              <td>{shorten(csv.rows[0]?.cells[index] ?? "")}</td>
              <td>
                <select
                  aria-label={`What ${column} becomes`}
                  value={chosen[index] ?? ""}
                  onChange={(event) => {
                    const next = csv.columns.map((_, place) => chosen[place] ?? "");
                    next[index] = event.currentTarget.value;
                    props.chooseColumns(next);
                  }}
                >
                  <option value="">nothing</option>
                  {(type === undefined ? [] : targetsOf(type)).map((target) => (
                    <option value={target} disabled={chosen.includes(target) && chosen[index] !== target}>
                      {target}
                    </option>
                  ))}
                </select>
              </td>
            </tr>
          ))}
        </tbody>
      </table>
      <p class="muted">{csv.rows.length.toLocaleString("en")} rows</p>
    </div>
  );
}

function Rejected(props: { problems: Row[]; leaveOut: (() => void) | null }) {
  const { problems } = props;
  return (
    <div role="alert">
      <h3>{problems.length === 1 ? "One problem" : `${problems.length} problems`}; nothing was written</h3>
      {props.leaveOut !== null && (
        <button class="small" onClick={props.leaveOut}>
          Leave these rows out and try again
        </button>
      )}
      <table>
        <thead>
          <tr>
            <th scope="col">Line</th>
            <th scope="col">Type</th>
            <th scope="col">Problem</th>
          </tr>
        </thead>
        <tbody>
          {problems.slice(0, 200).map((item) => (
            <tr>
              <td>{String(item["line"] ?? "")}</td>
              <td>{String(item["type"] ?? "")}</td>
              <td>{String(item["message"] ?? "")}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function Export() {
  const { at, root, types, graph } = useSession();
  const [type, setType] = useState("");
  const [problem, setProblem] = useState<Problem | null>(null);
  const run = async (): Promise<void> => {
    try {
      const response = await send(`${root}/export`, {
        body: { ...stateBody(at), type_names: type === "" ? [] : [type] },
        headers: { Accept: "application/x-ndjson" },
      });
      download(`${graph}${type === "" ? "" : `-${type}`}.jsonl`, "application/x-ndjson", await response.blob());
      setProblem(null);
    } catch (error) {
      setProblem(asProblem(error));
    }
  };
  return (
    <Panel title={`Export ${at}`}>
      <div class="row">
        <label>
          Type
          <select value={type} onChange={(event) => setType(event.currentTarget.value)}>
            <option value="">all types</option>
            {types.map((item) => (
              <option value={item.name}>{item.name}</option>
            ))}
          </select>
        </label>
        <button onClick={() => void run()}>Download JSON lines</button>
      </div>
      {problem !== null && <ErrorBox problem={problem} />}
    </Panel>
  );
}
