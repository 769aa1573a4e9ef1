import { useEffect, useState } from "preact/hooks";
import { send, type Problem } from "../api";
import { isBranch } from "../logic/address";
import { means, parseMetrics, rates, showBytes, total, type Look, type Sample } from "../logic/metrics";
import { showMoment } from "../logic/values";
import { Chart } from "../parts/chart";
import { CommitLine, ErrorBox, Panel, Spinner } from "../parts/basics";
import { asProblem, useLoaded, useSession } from "../session";
import { PipelineRuns } from "./runs";
import type {
  CleanupReport,
  OptimizeReport,
  Recoveries,
  RepairReport,
  TableHealth,
} from "../types";

export function Operations() {
  return (
    <div class="stack">
      <h1>Operations</h1>
      <Metrics />
      <Interrupted />
      <Tables />
      <Optimize />
      <Cleanup />
      <Repair />
      <PipelineRuns />
    </div>
  );
}

const LOOK_MS = 2_000;
const LOOKS_MAX = 151;

function Metrics() {
  const { graph } = useSession();
  const [looks, setLooks] = useState<Look[]>([]);
  const [problem, setProblem] = useState<Problem | null>(null);
  useEffect(() => {
    const stop = new AbortController();
    const look = async (): Promise<void> => {
      if (document.visibilityState !== "visible") return;
      try {
        const response = await send("/metrics", { headers: { Accept: "*/*" }, signal: stop.signal });
        const samples = parseMetrics(await response.text());
        setLooks((old) => [...old, { at: Date.now(), samples }].slice(-LOOKS_MAX));
        setProblem(null);
      } catch (error) {
        if (!stop.signal.aborted) setProblem(asProblem(error));
      }
    };
    void look();
    const timer = setInterval(() => void look(), LOOK_MS);
    return () => {
      stop.abort();
      clearInterval(timer);
    };
  }, []);
  const of = (name: string, where = {}) => (samples: Sample[]) => total(samples, name, where);
  const each = (count: (samples: Sample[]) => number): number[] =>
    looks.map((look) => count(look.samples));
  const perSecond = (value: number): string => `${value.toFixed(1)}/s`;
  const here = { graph };
  if (problem?.status === 403) {
    return (
      <Panel title="Metrics">
        <p class="muted">The metrics of this server are for those who may administer it.</p>
      </Panel>
    );
  }
  return (
    <Panel title="Metrics" aside={<span class="muted">every two seconds, while this page is open</span>}>
      {problem !== null && <ErrorBox problem={problem} />}
      {looks.length === 0 && problem === null && <Spinner />}
      <div class="charts">
        <Chart name="Requests" values={rates(looks, of("omnigraph_requests_total"))} show={perSecond} />
        <Chart
          name="Time of a request"
          values={means(looks, "omnigraph_request_seconds")}
          show={(value) => `${(value * 1000).toFixed(0)} ms`}
        />
        <Chart name="Requests under way" values={each(of("omnigraph_requests_in_flight"))} show={String} />
        <Chart name="Commits" values={rates(looks, of("omnigraph_commits_total", here))} show={perSecond} />
        <Chart name="Conflicts" values={rates(looks, of("omnigraph_conflicts_total", here))} show={perSecond} />
        <Chart
          name="Calls to storage"
          values={rates(looks, of("omnigraph_storage_operations_total", here))}
          show={perSecond}
        />
        <Chart name="Read cache" values={each(of("omnigraph_cache_bytes", here))} show={showBytes} />
      </div>
    </Panel>
  );
}

function Interrupted() {
  const { ask, graph, go } = useSession();
  const found = useLoaded((signal) => ask<Recoveries>("/recoveries", { signal }), graph);
  const { pending, recoveries } = found.value ?? { pending: [], recoveries: [] };
  return (
    <Panel
      title="Interrupted writes"
      aside={
        <button class="small" onClick={found.again}>
          Look again
        </button>
      }
    >
      {found.error !== null && <ErrorBox problem={found.error} />}
      {found.value !== null && (
        <p>
          {pending.length} under way or waiting for recovery, {recoveries.length} recovered so far.
        </p>
      )}
      {pending.length > 0 && (
        <table>
          <thead>
            <tr>
              <th scope="col">Write</th>
              <th scope="col">Branch</th>
              <th scope="col">By</th>
              <th scope="col">Tables</th>
              <th scope="col">State</th>
            </tr>
          </thead>
          <tbody>
            {pending.map((item) => (
              <tr>
                <td>{item.writer_kind ?? item.slot}</td>
                <td>{item.branch ?? "—"}</td>
                <td>{item.actor_id ?? "—"}</td>
                <td>{item.tables.join(", ")}</td>
                <td>{item.owner_alive ? "under way" : "interrupted: the next write resolves it"}</td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
      {recoveries.length > 0 && (
        <table>
          <thead>
            <tr>
              <th scope="col">Recovered</th>
              <th scope="col">Write</th>
              <th scope="col">For</th>
              <th scope="col">Outcome</th>
              <th scope="col">Commit</th>
            </tr>
          </thead>
          <tbody>
            {recoveries
              .slice(-20)
              .reverse()
              .map((item) => (
                <tr>
                  <td>{showMoment(item.created_at)}</td>
                  <td>{item.sidecar_writer_kind}</td>
                  <td>{item.recovery_for_actor ?? "—"}</td>
                  <td>{item.recovery_kind === "RolledForward" ? "finished" : "undone"}</td>
                  <td>
                    <button class="plain link" onClick={() => go("history", { commit: item.graph_commit_id })}>
                      {item.graph_commit_id.slice(-8)}
                    </button>
                  </td>
                </tr>
              ))}
          </tbody>
        </table>
      )}
    </Panel>
  );
}

function Tables() {
  const { ask, at, graph, history } = useSession();
  const head = history.commits[0]?.graph_commit_id ?? "";
  const branch = isBranch(at) ? at : null;
  const found = useLoaded(
    branch === null
      ? null
      : (signal) => ask<{ tables: TableHealth[] }>("/tables", { params: { branch }, signal }),
    `${graph} ${at} ${head}`,
  );
  if (branch === null) return <Panel title="Tables">Choose a branch to see how its tables are doing.</Panel>;
  return (
    <Panel title={`Tables of ${branch}`}>
      {found.error !== null && <ErrorBox problem={found.error} />}
      {found.value === null && found.loading && <Spinner />}
      {found.value !== null && (
        <div class="scroll" tabIndex={0} role="region" aria-label="Tables">
          <table>
            <thead>
              <tr>
                {["Table", "Rows", "Fragments", "Files", "Size", "Indexes", "Rows not covered"].map(
                  (name, index) => (
                    <th scope="col" class={index > 0 ? "number" : ""}>
                      {name}
                    </th>
                  ),
                )}
              </tr>
            </thead>
            <tbody>
              {found.value.tables.map((item) => (
                <tr>
                  <td>{item.table_key}</td>
                  <td class="number">{item.rows.toLocaleString("en")}</td>
                  <td class="number">{item.fragments.toLocaleString("en")}</td>
                  <td class="number">{item.files.toLocaleString("en")}</td>
                  <td class="number">{showBytes(item.bytes)}</td>
                  <td class="number">
                    {item.indexes - item.missing_indexes.length} of {item.indexes}
                  </td>
                  <td class="number">{item.uncovered_rows.toLocaleString("en")}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
      <p class="muted">Files and sizes are those of all branches and of every version that is kept.</p>
    </Panel>
  );
}

interface Trial<T> {
  /** What was asked: what is told holds for this and nothing else. */
  key: string;
  dry: boolean;
  found: T | null;
  problem: Problem | null;
}

/** Something to try first: the real thing can be asked for only as it was tried. */
function useTrial<T>(run: (dry: boolean) => Promise<T>, key: string) {
  const [last, setLast] = useState<Trial<T> | null>(null);
  const [busy, setBusy] = useState(false);
  const now = last?.key === key ? last : null;
  const go = async (dry: boolean): Promise<void> => {
    if (!dry && !(now?.dry === true && now.found !== null)) return;
    setBusy(true);
    try {
      setLast({ key, dry, found: await run(dry), problem: null });
    } catch (error) {
      setLast({ key, dry, found: null, problem: asProblem(error) });
    } finally {
      setBusy(false);
    }
  };
  return {
    tried: now?.dry === true ? now.found : null,
    done: now?.dry === false ? now.found : null,
    problem: now?.problem ?? null,
    busy,
    go,
  };
}

function Optimize() {
  const { ask, at, graph, refresh } = useSession();
  const trial = useTrial(async (dry) => {
    const found = await ask<OptimizeReport>("/optimize", { body: { branch: at, dry_run: dry } });
    if (!dry) refresh();
    return found;
  }, `${graph} ${at}`);
  if (!isBranch(at)) return null;
  const work = (trial.tried?.tables ?? []).filter(
    (item) => item.fragments_removed > 0 || item.pending_indexes.length > 0 || item.skipped !== undefined,
  );
  const real = work.some((item) => item.skipped === undefined);
  return (
    <Panel title={`Optimize ${at}`}>
      <p class="muted">Makes few large fragments of many small ones and indexes every row. No entity changes.</p>
      <div class="row">
        <button disabled={trial.busy} onClick={() => void trial.go(true)}>
          Show what would be done
        </button>
        <button class="main" disabled={trial.busy || !real} onClick={() => void trial.go(false)}>
          Optimize
        </button>
      </div>
      {trial.busy && <Spinner />}
      {trial.problem !== null && <ErrorBox problem={trial.problem} />}
      {trial.tried !== null && (
        <div role="status">
          {work.length === 0 && <p>Nothing to do.</p>}
          <ul class="plain-list">
            {work.map((item) => (
              <li>
                <strong>{item.table_key}</strong>{" "}
                {item.skipped !== undefined && (
                  <span class="muted">
                    {item.skipped === "inherited" ? "is the same as on the branch it came from: left alone" : `left alone: ${item.skipped}`}
                  </span>
                )}
                {item.fragments_removed > 0 &&
                  `${item.fragments_removed} fragments would become ${item.fragments_added}. `}
                {item.pending_indexes.length > 0 &&
                  `All rows would be indexed by ${item.pending_indexes.map((index) => index.column).join(", ")}.`}
              </li>
            ))}
          </ul>
        </div>
      )}
      {trial.done !== null && (
        <p role="status">
          {trial.done.commit === null ? "There was nothing left to do." : <CommitLine commit={trial.done.commit} />}
        </p>
      )}
    </Panel>
  );
}

function Cleanup() {
  const { ask, graph, refresh } = useSession();
  const [keep, setKeep] = useState("100");
  const [days, setDays] = useState("7");
  const trial = useTrial(async (dry) => {
    const found = await ask<CleanupReport>("/cleanup", {
      body: {
        dry_run: dry,
        keep_versions: keep === "" ? null : Number(keep),
        older_than_secs: days === "" ? null : Number(days) * 86_400,
      },
    });
    if (!dry) refresh();
    return found;
  }, `${graph} ${keep} ${days}`);
  const report = trial.tried ?? trial.done;
  const sum = (count: (item: CleanupReport["tables"][number]) => number): number =>
    (report?.tables ?? []).reduce((all, item) => all + count(item), 0);
  const rows = (report?.tables ?? []).filter(
    (item) => item.old_versions_removed > 0 || item.bytes_removed > 0 || item.error !== undefined,
  );
  return (
    <Panel title="Clean up">
      <p class="muted">
        Removes old versions of all branches and the files only they used. What tags, branches and merges need
        stays. Time travel ends at the oldest version that is kept.
      </p>
      <div class="row">
        <label>
          Newest versions that stay
          <input type="number" min={1} value={keep} onInput={(event) => setKeep(event.currentTarget.value)} />
        </label>
        <label>
          Days that stay
          <input type="number" min={0} value={days} onInput={(event) => setDays(event.currentTarget.value)} />
        </label>
        <button disabled={trial.busy} onClick={() => void trial.go(true)}>
          Show what would go
        </button>
        <button class="main" disabled={trial.busy || trial.tried === null || rows.length === 0} onClick={() => void trial.go(false)}>
          Remove
        </button>
      </div>
      {trial.busy && <Spinner />}
      {trial.problem !== null && <ErrorBox problem={trial.problem} />}
      {report !== null && (
        <div role="status">
          <p>
            {report.dry_run ? "Would remove" : "Removed"} {sum((item) => item.old_versions_removed).toLocaleString("en")}{" "}
            versions of tables, {showBytes(sum((item) => item.bytes_removed))}.
          </p>
          {rows.length > 0 && (
            <table>
              <thead>
                <tr>
                  <th scope="col">Table</th>
                  <th scope="col" class="number">Versions</th>
                  <th scope="col" class="number">Size</th>
                </tr>
              </thead>
              <tbody>
                {rows.map((item) => (
                  <tr>
                    <td>
                      {item.table_key} {item.error !== undefined && <span class="bad">{item.error}</span>}
                    </td>
                    <td class="number">{item.old_versions_removed.toLocaleString("en")}</td>
                    <td class="number">{showBytes(item.bytes_removed)}</td>
                  </tr>
                ))}
              </tbody>
            </table>
          )}
        </div>
      )}
    </Panel>
  );
}

const FOUND: Record<string, string> = {
  verified_maintenance: "only compaction or index work: no row changed",
  suspicious: "rows may have changed",
  unverifiable: "cannot be judged",
  leftover: "left by an interrupted write",
  missing: "a published version is missing",
  lost_index: "files of an index are missing",
};

function Repair() {
  const { ask, at, graph, refresh } = useSession();
  const [way, setWay] = useState("keep");
  const trial = useTrial(async (dry) => {
    const body = dry ? { branch: at } : { branch: at, confirm: true, discard: way === "discard" };
    const found = await ask<RepairReport>("/repair", { body });
    if (!dry) refresh();
    return found;
  }, `${graph} ${at} ${way}`);
  if (!isBranch(at)) return null;
  const report = trial.tried ?? trial.done;
  const moved = (report?.tables ?? []).filter((item) => item.classification !== "no_drift");
  return (
    <Panel title={`Repair ${at}`}>
      <p class="muted">Finds tables that another program changed behind the graph's back.</p>
      <div class="row">
        <button disabled={trial.busy} onClick={() => void trial.go(true)}>
          Look
        </button>
        <label>
          What was found is
          <select value={way} onChange={(event) => setWay(event.currentTarget.value)}>
            <option value="keep">published, if no row changed</option>
            <option value="discard">undone</option>
          </select>
        </label>
        <button class="main" disabled={trial.busy || trial.tried === null || moved.length === 0} onClick={() => void trial.go(false)}>
          Repair
        </button>
      </div>
      {trial.busy && <Spinner />}
      {trial.problem !== null && <ErrorBox problem={trial.problem} />}
      {report !== null && (
        <div role="status">
          {moved.length === 0 && <p>Nothing to repair.</p>}
          <ul class="plain-list">
            {moved.map((item) => (
              <li>
                <strong>{item.table_key}</strong> {FOUND[item.classification] ?? item.classification}: published{" "}
                {item.manifest_version}, newest {item.lance_head_version}, {item.action.replaceAll("_", " ")}
              </li>
            ))}
          </ul>
        </div>
      )}
    </Panel>
  );
}
