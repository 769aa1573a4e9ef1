/** Review of a merge: every conflict by property, then the merge itself. */

import { useState } from "preact/hooks";
import type { Json, Problem } from "../api";
import {
  conflictKey,
  dataOf,
  differing,
  isByProperty,
  isDecided,
  proposal,
  resolveOf,
  typeOf,
  UNDECIDED,
  type Choice,
  type Decision,
  type Decisions,
  type Side,
} from "../logic/merging";
import { editText, propertyOf, readValue, showValue } from "../logic/values";
import { ErrorBox, Panel, Spinner } from "../parts/basics";
import { asProblem, useLoaded, useSession } from "../session";
import type { Conflict, MergePlan, PropertyInfo } from "../types";

interface Merged {
  outcome: string;
  commit: { graph_commit_id: string } | null;
  branch_deleted?: boolean;
}

export function Review(props: { source: string; target: string }) {
  const { ask, history, go, refresh, say } = useSession();
  const { source, target } = props;
  const [decisions, setDecisions] = useState<Decisions>({});
  const [remove, setRemove] = useState(false);
  const [checks, setChecks] = useState("");
  const [message, setMessage] = useState("");
  const [busy, setBusy] = useState(false);
  const [problem, setProblem] = useState<Problem | null>(null);
  const [done, setDone] = useState<Merged | null>(null);
  const heads = `${history.heads[source] ?? ""} ${history.heads[target] ?? ""}`;
  const plan = useLoaded(
    done === null
      ? (signal) => ask<MergePlan>("/branches/merge/preview", { body: { source, target, property_merge: true }, signal })
      : null,
    `${source} ${target} ${heads} ${done === null}`,
  );
  if (done !== null) {
    return (
      <Panel title="Merged">
        <p role="status">
          {source} was merged into {target} ({done.outcome.replaceAll("_", " ")}).
          {done.branch_deleted && ` The branch ${source} was deleted.`}
        </p>
        {done.commit !== null && (
          <button onClick={() => go("history", { commit: done.commit?.graph_commit_id ?? "" })}>
            Show the commit
          </button>
        )}
      </Panel>
    );
  }
  if (plan.error !== null) return <ErrorBox problem={plan.error} again={plan.again} />;
  if (plan.value === null) return <Spinner what="the merge" />;
  const { merge_conflicts: conflicts, changes, outcome } = plan.value;
  const open = conflicts.filter((item) => !isDecided(item, decisions[conflictKey(item)] ?? UNDECIDED));
  const decide = (conflict: Conflict, decision: Decision): void =>
    setDecisions((old) => ({ ...old, [conflictKey(conflict)]: decision }));
  const all = (side: Side, type?: string): void =>
    setDecisions((old) => ({
      ...old,
      ...Object.fromEntries(
        conflicts
          .filter((item) => type === undefined || typeOf(item) === type)
          .map((item) => [conflictKey(item), { whole: side, properties: {} }]),
      ),
    }));
  const merge = async (): Promise<void> => {
    setBusy(true);
    try {
      const head = history.heads[target];
      const found = await ask<Merged>("/branches/merge", {
        body: {
          source,
          target,
          property_merge: true,
          resolve: conflicts.length > 0 ? resolveOf(conflicts, decisions) : null,
          delete_branch: remove,
          checks: checks.trim() === "" ? [] : [checks],
        },
        headers: {
          ...(head === undefined ? {} : { "Omnigraph-If-Graph-Commit": head }),
          ...(message === "" ? {} : { "Omnigraph-Message": encodeURIComponent(message) }),
        },
      });
      setProblem(null);
      setDone(found);
      say(`${source} was merged into ${target}.`);
      refresh();
    } catch (error) {
      // The choices stay; what the branches are now is shown again.
      setProblem(asProblem(error));
      refresh();
      plan.again();
    } finally {
      setBusy(false);
    }
  };
  const types = [...new Set(conflicts.map(typeOf))];
  return (
    <div class="stack">
      <p data-testid="verdict">
        {outcome === "already_up_to_date"
          ? `${target} has everything of ${source} already.`
          : `${count(changes.length, "change goes", "changes go")} in without a question; ${count(conflicts.length, "conflict", "conflicts")}, ${open.length} still open.`}
      </p>
      {conflicts.length > 0 && (
        <div class="row">
          <span>All conflicts:</span>
          <button class="small" onClick={() => all("ours")}>
            keep {target}
          </button>
          <button class="small" onClick={() => all("theirs")}>
            take {source}
          </button>
          {types.length > 1 &&
            types.map((type) => (
              <span>
                {type}:{" "}
                <button class="small" onClick={() => all("ours", type)}>
                  keep {target}
                </button>{" "}
                <button class="small" onClick={() => all("theirs", type)}>
                  take {source}
                </button>
              </span>
            ))}
          <button class="small" onClick={() => setDecisions({})}>
            Start over
          </button>
        </div>
      )}
      {conflicts.map((conflict) => (
        <ConflictCard
          conflict={conflict}
          decision={decisions[conflictKey(conflict)] ?? UNDECIDED}
          decide={(decision) => decide(conflict, decision)}
          source={source}
          target={target}
        />
      ))}
      <Incoming changes={changes} />
      {outcome !== "already_up_to_date" && (
        <Panel title="Merge">
          <label class="wide">
            Message of the commit (may be empty)
            <input value={message} onInput={(event) => setMessage(event.currentTarget.value)} />
          </label>
          <label class="wide">
            Check (a query that must return no rows once merged; may be empty)
            <textarea rows={3} value={checks} onInput={(event) => setChecks(event.currentTarget.value)} />
          </label>
          <label class="tick">
            <input type="checkbox" checked={remove} onChange={(event) => setRemove(event.currentTarget.checked)} />
            Delete the branch {source} afterwards
          </label>
          <div class="row">
            <button class="main" disabled={busy || open.length > 0} onClick={() => void merge()}>
              Merge {source} into {target}
            </button>
            {open.length > 0 && <span class="muted">Decide {open.length} more first.</span>}
          </div>
          {problem !== null && <ErrorBox problem={problem} />}
        </Panel>
      )}
    </div>
  );
}

const count = (number: number, one: string, many: string): string =>
  `${number.toLocaleString("en")} ${number === 1 ? one : many}`;

const LISTED_MAX = 200;

function Incoming(props: { changes: MergePlan["changes"] }) {
  if (props.changes.length === 0) return null;
  return (
    <Panel title="What goes in">
      <ul class="plain-list tall-list" tabIndex={0} aria-label="What goes in">
        {props.changes.slice(0, LISTED_MAX).map((item) => (
          <li class={item.op}>
            <span class="op">{item.op}</span> {item.table_key.slice(item.table_key.indexOf(":") + 1)} {item.id}
            {item.after?.edge !== undefined && ` (${item.after.from} → ${item.after.to})`}
          </li>
        ))}
        {props.changes.length > LISTED_MAX && <li class="muted">and {props.changes.length - LISTED_MAX} more</li>}
      </ul>
    </Panel>
  );
}

interface CardProps {
  conflict: Conflict;
  decision: Decision;
  decide: (decision: Decision) => void;
  source: string;
  target: string;
}

function ConflictCard(props: CardProps) {
  const { types } = useSession();
  const { conflict, decision, decide, source, target } = props;
  const type = types.find((item) => item.name === typeOf(conflict));
  const names = differing(conflict);
  const single = isByProperty(conflict);
  const [ours, theirs, base] = [dataOf(conflict.ours), dataOf(conflict.theirs), dataOf(conflict.base)];
  const whole = (side: Side): void => decide({ whole: side, properties: {} });
  return (
    <section class="panel conflict" aria-label={`Conflict ${conflictKey(conflict)}`}>
      <div class="panel-head">
        <h2>
          {typeOf(conflict)} {conflict.row_id}
        </h2>
        <span class={isDecided(conflict, decision) ? "chip good" : "chip bad"}>
          {isDecided(conflict, decision) ? "decided" : "open"}
        </span>
      </div>
      <p>{conflict.message}</p>
      <div class="row">
        <button class="small" aria-pressed={decision.whole === "ours"} onClick={() => whole("ours")}>
          {conflict.ours === null ? `stay without it, as ${target}` : `keep all of ${target}`}
        </button>
        <button class="small" aria-pressed={decision.whole === "theirs"} onClick={() => whole("theirs")}>
          {conflict.theirs === null ? `remove it, as ${source}` : `take all of ${source}`}
        </button>
      </div>
      {names.length > 0 && (
        <table>
          <thead>
            <tr>
              <th scope="col">Property</th>
              <th scope="col">Before both</th>
              <th scope="col">Ours: {target}</th>
              <th scope="col">Theirs: {source}</th>
              {single && <th scope="col">Own value</th>}
            </tr>
          </thead>
          <tbody>
            {names.map((name) => (
              <PropertyRow
                name={name}
                property={propertyOf(type, name)}
                values={{ base: base[name], ours: ours[name], theirs: theirs[name] }}
                now={choiceOf(conflict, decision, name)}
                single={single}
                choose={(choice) =>
                  decide({ whole: null, properties: { ...decision.properties, [name]: choice } })
                }
              />
            ))}
          </tbody>
        </table>
      )}
    </section>
  );
}

function choiceOf(conflict: Conflict, decision: Decision, name: string): Choice | null {
  if (decision.whole !== null) return { side: decision.whole };
  const side = proposal(conflict, name);
  return decision.properties[name] ?? (side === null ? null : { side });
}

interface RowProps {
  name: string;
  property: PropertyInfo | undefined;
  values: { base: Json | undefined; ours: Json | undefined; theirs: Json | undefined };
  now: Choice | null;
  single: boolean;
  choose: (choice: Choice) => void;
}

function PropertyRow(props: RowProps) {
  const { name, property, values, now, single, choose } = props;
  const [text, setText] = useState(now !== null && "value" in now ? editText(now.value, property) : "");
  const [wrong, setWrong] = useState("");
  const is = (side: Side): boolean => now !== null && "side" in now && now.side === side;
  const own = (next: string): void => {
    setText(next);
    try {
      const empty = next === "" && property?.nullable === true;
      choose({ value: empty ? null : readValue(next, property?.scalar ?? "String", property?.is_list ?? false) });
      setWrong("");
    } catch (error) {
      setWrong(error instanceof Error ? error.message : "not understood");
    }
  };
  return (
    <tr>
      <th scope="row">{name}</th>
      <td>{showValue(values.base, property)}</td>
      {(["ours", "theirs"] as const).map((side) => (
        <td class={is(side) ? "picked" : ""}>
          {single ? (
            <button class="small" aria-pressed={is(side)} aria-label={`${name}: ${side}`} onClick={() => choose({ side })}>
              {showValue(values[side], property)}
            </button>
          ) : (
            showValue(values[side], property)
          )}
        </td>
      ))}
      {single && (
        <td class={now !== null && "value" in now ? "picked" : ""}>
          <input
            aria-label={`Own value of ${name}`}
            aria-invalid={wrong !== ""}
            value={text}
            onInput={(event) => own(event.currentTarget.value)}
          />
          {wrong !== "" && <span class="bad">{wrong}</span>}
        </td>
      )}
    </tr>
  );
}
