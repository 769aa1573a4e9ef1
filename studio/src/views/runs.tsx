import { useMemo, useState } from "preact/hooks";
import type { Problem } from "../api";
import { readReport, runsOf, type RunReport } from "../logic/runs";
import { showMoment } from "../logic/values";
import { ErrorBox, Panel } from "../parts/basics";
import { asProblem, useSession } from "../session";

/** Commits tell which runs of pipelines there were; a report is a file of whoever ran one. */
export function PipelineRuns() {
  const { history, go } = useSession();
  const runs = useMemo(() => runsOf(history.commits), [history]);
  const [report, setReport] = useState<RunReport | null>(null);
  const [problem, setProblem] = useState<Problem | null>(null);
  const open = async (file: File | undefined): Promise<void> => {
    try {
      setReport(file === undefined ? null : readReport(await file.text()));
      setProblem(null);
    } catch (error) {
      setReport(null);
      setProblem(asProblem(error));
    }
  };
  return (
    <Panel title="Pipeline runs">
      {runs.length === 0 && <p class="muted">None of the last commits is of a pipeline.</p>}
      {runs.length > 0 && (
        <table>
          <thead>
            <tr>
              <th scope="col">Pipeline</th>
              <th scope="col">Run</th>
              <th scope="col">Last commit</th>
              <th scope="col">Steps that made one</th>
            </tr>
          </thead>
          <tbody>
            {runs.slice(0, 20).map((item) => (
              <tr>
                <td>{item.pipeline}</td>
                <td>{item.run}</td>
                <td>{showMoment(item.steps.at(-1)?.commit.created_at ?? 0)}</td>
                <td>
                  {item.steps.map(({ step, commit }) => (
                    <button class="plain link" onClick={() => go("history", { commit: commit.graph_commit_id })}>
                      {step}
                    </button>
                  ))}
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
      <label>
        Show a report, as omnigraph pipeline run --json prints it
        <input type="file" accept=".json" onChange={(event) => void open(event.currentTarget.files?.[0])} />
      </label>
      {problem !== null && <ErrorBox problem={problem} />}
      {report !== null && <Report report={report} />}
    </Panel>
  );
}

function Report(props: { report: RunReport }) {
  const { report } = props;
  return (
    <div role="status">
      <h3>
        {report.pipeline}, run {report.run_id}: {report.ok ? "ok" : "failed"}
      </h3>
      {report.error !== undefined && <p class="bad">{report.error}</p>}
      <p>
        {report.rows_in.toLocaleString("en")} rows in, {report.rejected.toLocaleString("en")} rejected,{" "}
        {report.seconds.toFixed(1)} s, on branch {report.branch}
      </p>
      <table>
        <thead>
          <tr>
            <th scope="col">Step</th>
            <th scope="col">Outcome</th>
            <th scope="col" class="number">Seconds</th>
            <th scope="col">More</th>
          </tr>
        </thead>
        <tbody>
          {report.steps.map((step) => (
            <tr>
              <td>{step.name}</td>
              <td class={step.outcome === "failed" ? "bad" : ""}>{step.outcome.replaceAll("_", " ")}</td>
              <td class="number">{step.seconds.toFixed(2)}</td>
              <td>{step.error ?? step.detail ?? ""}</td>
            </tr>
          ))}
        </tbody>
      </table>
      <table>
        <thead>
          <tr>
            <th scope="col">Type</th>
            <th scope="col" class="number">Rows before</th>
            <th scope="col" class="number">Rows after</th>
          </tr>
        </thead>
        <tbody>
          {Object.entries(report.rows).map(([name, counts]) => (
            <tr>
              <td>{name}</td>
              <td class="number">{counts.before.toLocaleString("en")}</td>
              <td class="number">{counts.after.toLocaleString("en")}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
