import { useRef, useState } from "preact/hooks";
import { send, type Problem, type Row } from "../api";
import { isBranch, stateBody } from "../logic/address";
import { writeExact } from "../logic/exact";
import { atFile, chosenColumns, formOf, guess, parseCsv, toLines, type Csv, type Form } from "../logic/mapping";
import { download, ErrorBox, Panel, Spinner } from "../parts/basics";
import { Mapping, Rejected, type TableHead } from "../parts/mapping";
import { asProblem, useSession } from "../session";
import type { ParquetContent, TypeInfo } from "../types";

/** More is a matter for `omnigraph load`: the page holds the file in memory. */
const FILE_BYTES_MAX = 30 * 1024 * 1024;
const PARQUET = { "Content-Type": "application/vnd.apache.parquet" };

export function Data() {
  return (
    <div class="stack">
      <h1>Data</h1>
      <Load />
      <Export />
    </div>
  );
}

/** What is to be loaded: a text, or a Parquet file, into which only the server can look. */
type Source =
  | { form: "lines"; text: string }
  | { form: "csv"; text: string; csv: Csv | Error }
  | { form: "parquet"; file: File; content: ParquetContent };

function textSource(text: string, form: Form): Source {
  return form === "csv" ? { form, text, csv: readCsv(text) } : { form: "lines", text };
}

function readCsv(text: string): Csv | Error {
  try {
    return parseCsv(text);
  } catch (error) {
    return error instanceof Error ? error : new Error(String(error));
  }
}

function headOf(source: Source): TableHead | null {
  if (source.form === "parquet") {
    const { rows, columns } = source.content;
    return { rows, columns: columns.map((item) => item.name), firsts: columns.map((item) => item.first ?? "") };
  }
  if (source.form === "lines" || source.csv instanceof Error) return null;
  const { columns, rows } = source.csv;
  return { rows: rows.length, columns, firsts: rows[0]?.cells ?? [] };
}

async function readText(file: File, packed: boolean): Promise<string> {
  const unpacked = packed ? file.stream().pipeThrough(new DecompressionStream("gzip")) : file.stream();
  const reader = unpacked.pipeThrough(new TextDecoderStream()).getReader();
  const parts: string[] = [];
  let size = 0;
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return parts.join("");
    size += value.length;
    if (size > FILE_BYTES_MAX) throw new Error(TOO_LARGE);
    parts.push(value);
  }
}

const TOO_LARGE = "The file is too large for a browser: use `omnigraph load`.";

function Load() {
  const { at, ask, refresh, say, types } = useSession();
  const [source, setSource] = useState<Source>({ form: "lines", text: "" });
  const [name, setName] = useState("");
  const [mode, setMode] = useState("merge");
  const [typeName, setTypeName] = useState("");
  const [chosen, setChosen] = useState<string[]>([]);
  const [without, setWithout] = useState<Set<number>>(new Set());
  const [tried, setTried] = useState<Row | null>(null);
  const [rejects, setRejects] = useState<Row[]>([]);
  const [problem, setProblem] = useState<Problem | null>(null);
  const [busy, setBusy] = useState(false);
  /** Where in the file each line comes from that was sent; null where they are the same. */
  const lines = useRef<number[] | null>(null);
  const type = types.find((item) => item.name === typeName) ?? types[0];
  const head = headOf(source);
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
  const take = (next: Source): void => {
    setSource(next);
    choose(type, headOf(next)?.columns ?? []);
  };
  const pick = async (file: File | undefined): Promise<void> => {
    forget();
    if (file === undefined) return;
    setBusy(true);
    try {
      if (file.size > FILE_BYTES_MAX) throw new Error(TOO_LARGE);
      const { form, packed } = formOf(file.name);
      if (form !== "parquet") take(textSource(await readText(file, packed), form));
      else {
        if (packed) throw new Error("Parquet is compressed already: choose the file without .gz.");
        const asked = { params: stateBody(at), content: file, headers: PARQUET };
        take({ form, file, content: await ask<ParquetContent>("/load/parquet/columns", asked) });
      }
      setName(file.name);
    } catch (error) {
      take({ form: "lines", text: "" });
      setProblem(asProblem(error));
    } finally {
      setBusy(false);
    }
  };
  const submit = async (dry: boolean, skip: Set<number>): Promise<Row | null> => {
    const params = { ...stateBody(at), mode, dry_run: dry };
    lines.current = null;
    if (source.form === "lines") return await ask<Row>("/load/ndjson", { params, content: source.text });
    if (type === undefined) throw new Error("choose a type");
    if (source.form === "parquet") {
      const columns = JSON.stringify(chosenColumns(head?.columns ?? [], chosen));
      const more = { type: type.name, columns, skip: [...skip].join(",") };
      const asked = { params: { ...params, ...more }, content: source.file, headers: PARQUET };
      return await ask<Row>("/load/parquet", asked);
    }
    if (source.csv instanceof Error) throw source.csv;
    const made = toLines(source.csv, type, chosen, skip);
    if (made.rejects.length > 0) {
      setRejects(made.rejects.map((item) => ({ ...item, type: type.name })));
      return null;
    }
    lines.current = made.lines;
    return await ask<Row>("/load/ndjson", { params, content: made.text });
  };
  const run = async (dry: boolean, skip = without): Promise<void> => {
    setBusy(true);
    forget();
    try {
      const found = await submit(dry, skip);
      setTried(dry ? found : null);
      if (!dry && found !== null) {
        say(`${name || "The lines"} was loaded into ${at}.`);
        refresh();
      }
    } catch (error) {
      const told = asProblem(error);
      const found = told.body["data_errors"] as { problems?: Row[] } | undefined;
      setRejects(atFile(found?.problems ?? [], lines.current));
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
  const isEmpty = source.form !== "parquet" && source.text === "";
  const wrong = source.form === "csv" && source.csv instanceof Error && !isEmpty ? source.csv : null;
  const canLeaveOut = source.form !== "lines" && rejects.some((item) => typeof item["line"] === "number");
  if (!isBranch(at)) return <Panel title="Load">The past cannot be changed: choose a branch.</Panel>;
  return (
    <Panel title={`Load into ${at}`}>
      <p>
        JSON lines, as an export writes them: <code>{`{"type": "Person", "data": {…}}`}</code>, or CSV with a
        line of names, or Parquet, for one type. Text may be packed by gzip. Try it first; all of it is one
        commit, or nothing is written.
      </p>
      <div class="row">
        <label>
          File
          <input
            type="file"
            accept=".jsonl,.ndjson,.json,.csv,.gz,.parquet"
            onChange={(event) => void pick(event.currentTarget.files?.[0])}
          />
        </label>
        <label>
          Form
          <select
            value={source.form}
            onChange={(event) =>
              take(textSource(source.form === "parquet" ? "" : source.text, event.currentTarget.value as Form))
            }
          >
            <option value="lines">JSON lines</option>
            <option value="csv">CSV</option>
            {source.form === "parquet" && <option value="parquet">Parquet</option>}
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
      {source.form !== "parquet" && (
        <label class="wide">
          Lines
          <textarea
            rows={6}
            value={source.text.length > 100_000 ? "(a large file)" : source.text}
            onInput={(event) => take(textSource(event.currentTarget.value, source.form))}
          />
        </label>
      )}
      {wrong !== null && <p class="bad">{wrong.message}</p>}
      {head !== null && (
        <Mapping
          table={head}
          type={type}
          chosen={chosen}
          chooseType={(next) => choose(next, head.columns)}
          chooseColumns={(next) => {
            setChosen(next);
            forget();
          }}
        />
      )}
      <div class="row">
        <button class="main" disabled={busy || isEmpty || wrong !== null} onClick={() => void run(true)}>
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
      {rejects.length > 0 && <Rejected problems={rejects} leaveOut={canLeaveOut ? leaveOut : null} />}
    </Panel>
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
