import { useState } from "preact/hooks";
import { send, type Problem, type Row } from "../api";
import { isBranch, stateBody } from "../logic/address";
import { writeExact } from "../logic/exact";
import { download, ErrorBox, Panel, Spinner } from "../parts/basics";
import { asProblem, useSession } from "../session";

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

function Load() {
  const { at, ask, refresh, say } = useSession();
  const [text, setText] = useState("");
  const [name, setName] = useState("");
  const [mode, setMode] = useState("merge");
  const [tried, setTried] = useState<Row | null>(null);
  const [problem, setProblem] = useState<Problem | null>(null);
  const [busy, setBusy] = useState(false);
  const pick = async (file: File | undefined): Promise<void> => {
    setTried(null);
    setProblem(null);
    if (file === undefined) return;
    if (file.size > FILE_BYTES_MAX) {
      setProblem(asProblem(new Error("The file is too large for a browser: use `omnigraph load`.")));
      return;
    }
    setName(file.name);
    setText(await file.text());
  };
  const run = async (dry: boolean): Promise<void> => {
    setBusy(true);
    try {
      const found = await ask<Row>("/load/ndjson", {
        params: { ...stateBody(at), mode, dry_run: dry },
        text,
      });
      setProblem(null);
      setTried(dry ? found : null);
      if (!dry) {
        say(`${name || "The lines"} was loaded into ${at}.`);
        refresh();
      }
    } catch (error) {
      setTried(null);
      setProblem(asProblem(error));
    } finally {
      setBusy(false);
    }
  };
  if (!isBranch(at)) return <Panel title="Load">The past cannot be changed: choose a branch.</Panel>;
  return (
    <Panel title={`Load into ${at}`}>
      <p>
        JSON lines, as an export writes them: <code>{`{"type": "Person", "data": {…}}`}</code>. Try it
        first; all of it is one commit, or nothing is written.
      </p>
      <div class="row">
        <label>
          File
          <input type="file" accept=".jsonl,.ndjson,.json" onChange={(event) => void pick(event.currentTarget.files?.[0])} />
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
          onInput={(event) => {
            setText(event.currentTarget.value);
            setTried(null);
          }}
        />
      </label>
      <div class="row">
        <button class="main" disabled={busy || text === ""} onClick={() => void run(true)}>
          Try
        </button>
        <button disabled={busy || tried === null} onClick={() => void run(false)}>
          Load
        </button>
      </div>
      {busy && <Spinner />}
      {tried !== null && (
        <div role="status">
          <p>It fits. This is what would be written:</p>
          <pre class="block">{writeExact(tried, 2)}</pre>
        </div>
      )}
      {problem !== null && <Rejected problem={problem} />}
    </Panel>
  );
}

function Rejected(props: { problem: Problem }) {
  const found = props.problem.body["data_errors"] as { problems?: Row[] } | undefined;
  const problems = found?.problems ?? [];
  if (problems.length === 0) return <ErrorBox problem={props.problem} />;
  return (
    <div role="alert">
      <h3>{problems.length} problems; nothing was written</h3>
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
