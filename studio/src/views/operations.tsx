import { useEffect, useState } from "preact/hooks";
import { send, type Problem } from "../api";
import { isBranch } from "../logic/address";
import { means, parseMetrics, rates, showBytes, total, type Look, type Sample } from "../logic/metrics";
import { showMoment } from "../logic/values";
import { Chart } from "../parts/chart";
import { ErrorBox, Panel, Spinner } from "../parts/basics";
import { asProblem, useLoaded, useSession } from "../session";
import type { Recoveries, TableHealth } from "../types";
import { Cleanup, Optimize, Repair } from "./maintenance";
import { PipelineRuns } from "./runs";

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

/** What became of an interrupted write. */
const ENDED: Record<string, string> = {
  never_armed: "it had not begun",
  branch_gone: "its branch is gone",
  already_decided: "it was complete already",
  head_moved: "another write came first",
  nothing_moved: "it had changed nothing",
  rolled_forward: "finished",
  rolled_back: "undone",
  needs_repair: "left alone, it needs a repair",
};

function Interrupted() {
  const { ask, graph, go, refresh, say } = useSession();
  const found = useLoaded((signal) => ask<Recoveries>("/recoveries", { signal }), graph);
  const [busy, setBusy] = useState(false);
  const [problem, setProblem] = useState<Problem | null>(null);
  const { pending, recoveries } = found.value ?? { pending: [], recoveries: [] };
  const recover = async (): Promise<void> => {
    setBusy(true);
    try {
      const { resolved } = await ask<{ resolved: string[] }>("/recover", { method: "POST" });
      setProblem(null);
      say(`Recovered: ${resolved.map((verdict) => ENDED[verdict] ?? verdict).join(", ") || "nothing was left to do"}.`);
      refresh();
      found.again();
    } catch (error) {
      setProblem(asProblem(error));
    } finally {
      setBusy(false);
    }
  };
  return (
    <Panel
      title="Interrupted writes"
      aside={
        <span class="row">
          <button class="small" onClick={found.again}>
            Look again
          </button>
          <button
            class="small"
            disabled={busy || !pending.some((item) => !item.owner_alive)}
            onClick={() => void recover()}
          >
            Recover now
          </button>
        </span>
      }
    >
      {busy && <Spinner />}
      {problem !== null && <ErrorBox problem={problem} />}
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
