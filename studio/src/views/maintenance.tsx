import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import type { Problem } from "../api";
import { isBranch } from "../logic/address";
import { showBytes } from "../logic/metrics";
import { CommitLine, ErrorBox, Panel, Spinner } from "../parts/basics";
import { asProblem, useSession } from "../session";
import type { CleanupReport, OptimizeReport, RepairReport } from "../types";

interface Told<T> {
  /** What was asked: the answer holds for this and nothing else. */
  key: string;
  dry: boolean;
  report: T | null;
  problem: Problem | null;
}

interface CareProps<T> {
  title: string;
  about: string;
  path: string;
  body: (dry: boolean) => Record<string, unknown>;
  /** What a click on the first button shows. */
  look: string;
  act: string;
  /** Whether a report leaves anything to do. */
  hasWork: (report: T) => boolean;
  show: (report: T, dry: boolean) => ComponentChildren;
  children?: ComponentChildren;
}

/** One kind of maintenance: what it would do is shown first, and only that can be asked for then. */
function Care<T>(props: CareProps<T>) {
  const { ask, graph, refresh } = useSession();
  const [last, setLast] = useState<Told<T> | null>(null);
  const [busy, setBusy] = useState(false);
  const key = JSON.stringify([graph, props.body(true), props.body(false)]);
  const told = last?.key === key ? last : null;
  const report = told?.report ?? null;
  const tried = told?.dry === true ? report : null;
  const run = async (dry: boolean): Promise<void> => {
    setBusy(true);
    try {
      setLast({ key, dry, report: await ask<T>(props.path, { body: props.body(dry) }), problem: null });
      if (!dry) refresh();
    } catch (error) {
      setLast({ key, dry, report: null, problem: asProblem(error) });
    } finally {
      setBusy(false);
    }
  };
  return (
    <Panel title={props.title}>
      <p class="muted">{props.about}</p>
      <div class="row">
        {props.children}
        <button disabled={busy} onClick={() => void run(true)}>
          {props.look}
        </button>
        <button
          class="main"
          disabled={busy || tried === null || !props.hasWork(tried)}
          onClick={() => void run(false)}
        >
          {props.act}
        </button>
      </div>
      {busy && <Spinner />}
      {told !== null && told.problem !== null && <ErrorBox problem={told.problem} />}
      {told !== null && report !== null && <div role="status">{props.show(report, told.dry)}</div>}
    </Panel>
  );
}

export function Optimize() {
  const { at } = useSession();
  if (!isBranch(at)) return null;
  return (
    <Care<OptimizeReport>
      title={`Optimize ${at}`}
      about="Makes few large fragments of many small ones and indexes every row. No entity changes."
      path="/optimize"
      body={(dry) => ({ branch: at, dry_run: dry })}
      look="Show what would be done"
      act="Optimize"
      hasWork={(report) => worthTelling(report).some((item) => item.skipped === undefined)}
      show={(report, dry) => (dry ? <OptimizePlan report={report} /> : <OptimizeDone report={report} />)}
    />
  );
}

const worthTelling = (report: OptimizeReport): OptimizeReport["tables"] =>
  report.tables.filter(
    (item) => item.fragments_removed > 0 || item.pending_indexes.length > 0 || item.skipped !== undefined,
  );

function OptimizePlan(props: { report: OptimizeReport }) {
  const work = worthTelling(props.report);
  if (work.length === 0) return <p>Nothing to do.</p>;
  return (
    <ul class="plain-list">
      {work.map((item) => (
        <li>
          <strong>{item.table_key}</strong>{" "}
          {item.skipped !== undefined && (
            <span class="muted">
              {item.skipped === "inherited"
                ? "is the same as on the branch it came from: left alone"
                : `left alone: ${item.skipped}`}
            </span>
          )}
          {item.fragments_removed > 0 &&
            `${item.fragments_removed} fragments would become ${item.fragments_added}. `}
          {item.pending_indexes.length > 0 &&
            `All rows would be indexed by ${item.pending_indexes.map((index) => index.column).join(", ")}.`}
        </li>
      ))}
    </ul>
  );
}

function OptimizeDone(props: { report: OptimizeReport }) {
  const { commit } = props.report;
  return <p>{commit === null ? "There was nothing left to do." : <CommitLine commit={commit} />}</p>;
}

export function Cleanup() {
  const [keep, setKeep] = useState("100");
  const [days, setDays] = useState("7");
  return (
    <Care<CleanupReport>
      title="Clean up"
      about="Removes old versions of all branches and the files only they used. What tags, branches and merges need stays. Time travel ends at the oldest version that is kept."
      path="/cleanup"
      body={(dry) => ({
        dry_run: dry,
        keep_versions: keep === "" ? null : Number(keep),
        older_than_secs: days === "" ? null : Number(days) * 86_400,
      })}
      look="Show what would go"
      act="Remove"
      hasWork={(report) => touched(report).length > 0}
      show={(report) => <Removed report={report} />}
    >
      <label>
        Newest versions that stay
        <input type="number" min={1} value={keep} onInput={(event) => setKeep(event.currentTarget.value)} />
      </label>
      <label>
        Days that stay
        <input type="number" min={0} value={days} onInput={(event) => setDays(event.currentTarget.value)} />
      </label>
    </Care>
  );
}

const touched = (report: CleanupReport): CleanupReport["tables"] =>
  report.tables.filter(
    (item) => item.old_versions_removed > 0 || item.bytes_removed > 0 || item.error !== undefined,
  );

function Removed(props: { report: CleanupReport }) {
  const { report } = props;
  const sum = (count: (item: CleanupReport["tables"][number]) => number): number =>
    report.tables.reduce((all, item) => all + count(item), 0);
  const rows = touched(report);
  return (
    <>
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
    </>
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

export function Repair() {
  const { at } = useSession();
  const [way, setWay] = useState("keep");
  if (!isBranch(at)) return null;
  const moved = (report: RepairReport): RepairReport["tables"] =>
    report.tables.filter((item) => item.classification !== "no_drift");
  return (
    <Care<RepairReport>
      title={`Repair ${at}`}
      about="Finds tables that another program changed behind the graph's back."
      path="/repair"
      body={(dry) => (dry ? { branch: at } : { branch: at, confirm: true, discard: way === "discard" })}
      look="Look"
      act="Repair"
      hasWork={(report) => moved(report).length > 0}
      show={(report) => (
        <>
          {moved(report).length === 0 && <p>Nothing to repair.</p>}
          <ul class="plain-list">
            {moved(report).map((item) => (
              <li>
                <strong>{item.table_key}</strong> {FOUND[item.classification] ?? item.classification}: published{" "}
                {item.manifest_version}, newest {item.lance_head_version}, {item.action.replaceAll("_", " ")}
              </li>
            ))}
          </ul>
        </>
      )}
    >
      <label>
        What was found is
        <select value={way} onChange={(event) => setWay(event.currentTarget.value)}>
          <option value="keep">published, if no row changed</option>
          <option value="discard">undone</option>
        </select>
      </label>
    </Care>
  );
}
