import { useMemo, useRef, useState } from "preact/hooks";
import { endsOf } from "../logic/merging";
import { ErrorBox, Panel, Spinner, Tabs } from "../parts/basics";
import { ChangeList } from "../parts/changes";
import { Picture, type DrawnEdge, type DrawnNode, type Mark, type Places } from "../parts/picture";
import { useLoaded, useSession } from "../session";
import type { ChangesPage, EntityChange, MergePlan } from "../types";
import { Review } from "./review";

const PAGE = 500;

export function Compare() {
  const { branches, history, place, go } = useSession();
  const main = branches.find((item) => item.name === "main")?.name ?? branches[0]?.name ?? "main";
  const target = place.params["target"] || main;
  const source = place.params["source"] || branches.find((item) => item.name !== target)?.name || "";
  const tab = place.params["tab"] ?? "changes";
  const states = [...branches.map((item) => item.name), ...history.tags.map((tag) => tag.name)];
  const choose = (change: Record<string, string>): void =>
    go("compare", { source, target, ...(tab === "changes" ? {} : { tab }), ...change });
  const canMerge = branches.some((b) => b.name === source) && branches.some((b) => b.name === target);
  // A merge that deleted its source is still told about.
  const names = ["Changes", "Picture", ...(canMerge || tab === "merge" ? ["Merge"] : [])];
  const now = names.find((name) => name.toLowerCase() === tab) ?? "Changes";
  return (
    <div class="stack">
      <h1>Compare and merge</h1>
      <div class="row direction">
        <State name="Source" value={source} states={states} choose={(value) => choose({ source: value })} />
        <span class="arrow" aria-hidden="true">
          →
        </span>
        <State name="Target" value={target} states={states} choose={(value) => choose({ target: value })} />
        <button class="small" onClick={() => choose({ source: target, target: source })}>
          Swap
        </button>
      </div>
      {source === "" || source === target ? (
        <p class="muted">Choose two states. A branch is made on the overview.</p>
      ) : (
        <>
          <Tabs names={names} now={now} choose={(name) => choose({ tab: name.toLowerCase() })} />
          {now === "Merge" ? (
            <Review key={`${source} ${target}`} source={source} target={target} />
          ) : (
            <Difference source={source} target={target} drawn={now === "Picture"} />
          )}
        </>
      )}
    </div>
  );
}

function State(props: { name: string; value: string; states: string[]; choose: (value: string) => void }) {
  const known = props.states.includes(props.value) || props.value === "";
  return (
    <label>
      {props.name}
      <select value={props.value} onChange={(event) => props.choose(event.currentTarget.value)}>
        {!known && <option value={props.value}>{props.value}</option>}
        {props.states.map((state) => (
          <option value={state}>{state}</option>
        ))}
      </select>
    </label>
  );
}

function Difference(props: { source: string; target: string; drawn: boolean }) {
  const { ask, types, history, place, go, branches } = useSession();
  const { source, target } = props;
  const both = [source, target].every((name) => branches.some((item) => item.name === name));
  const parted = both && place.params["since"] !== "now";
  const only = place.params["type"] ?? "";
  const heads = `${history.heads[source] ?? ""} ${history.heads[target] ?? ""}`;
  const [pages, setPages] = useState(1);
  const found = useLoaded(
    async (signal) => {
      const all: EntityChange[] = [];
      let from = target;
      if (parted) {
        const plan = await ask<MergePlan>("/branches/merge/preview", { body: { source, target }, signal });
        from = plan.base_commit_id ?? target;
      }
      let token: string | undefined;
      let last: ChangesPage | null = null;
      for (let page = 0; page < pages; page += 1) {
        last = await ask<ChangesPage>("/diff", {
          params: { from, to: source, type: only, limit: PAGE, page_token: token },
          signal,
        });
        all.push(...last.changes);
        token = last.next_page_token;
        if (token === undefined) break;
      }
      const summary = await ask<ChangesPage>("/diff", { params: { from, to: source, limit: 1 }, signal });
      return { changes: all, summary: summary.summary ?? {}, more: token !== undefined };
    },
    `${source} ${target} ${only} ${pages} ${heads} ${parted}`,
  );
  if (found.error !== null) return <ErrorBox problem={found.error} />;
  if (found.value === null) return <Spinner what="the differences" />;
  const { changes, summary, more } = found.value;
  return (
    <div class="stack">
      <div class="row">
        <p>
          {parted
            ? `What ${source} changed since it left ${target}.`
            : `What makes ${target} into ${source}; what ${target} got meanwhile is undone in it.`}
        </p>
        {both && (
          <button
            class="small"
            onClick={() => go("compare", { ...place.params, since: parted ? "now" : "" })}
          >
            {parted ? `Compare with ${target} as it is now` : "Compare with where they parted"}
          </button>
        )}
      </div>
      <Panel title="Summary">
        <table>
          <thead>
            <tr>
              <th scope="col">Type</th>
              <th scope="col" class="number">Added</th>
              <th scope="col" class="number">Changed</th>
              <th scope="col" class="number">Removed</th>
              <th scope="col">Show</th>
            </tr>
          </thead>
          <tbody>
            {Object.entries(summary).map(([name, counts]) => (
              <tr>
                <td>{name}</td>
                <td class="number">{counts.insert}</td>
                <td class="number">{counts.update}</td>
                <td class="number">{counts.delete}</td>
                <td>
                  <button
                    class="small"
                    aria-pressed={only === name}
                    onClick={() => go("compare", { ...place.params, type: only === name ? "" : name })}
                  >
                    {only === name ? "All types" : `Only ${name}`}
                  </button>
                </td>
              </tr>
            ))}
          </tbody>
        </table>
        {Object.keys(summary).length === 0 && <p class="muted">Nothing differs.</p>}
      </Panel>
      {props.drawn ? <Drawn changes={changes} /> : <ChangeList changes={changes} types={types} />}
      {more && <button onClick={() => setPages(pages + 1)}>More changes</button>}
    </div>
  );
}

function Drawn(props: { changes: EntityChange[] }) {
  const { types } = useSession();
  const places = useRef<Places>(new Map());
  const [selected, setSelected] = useState<string | null>(null);
  const { nodes, edges } = useMemo(() => sceneOf(props.changes, types), [props.changes, types]);
  const chosen = props.changes.filter((change) => `${change.type.name}/${change.id}` === selected);
  return (
    <div class="stack">
      <Picture
        label="Picture of the changes"
        types={types.filter((type) => type.kind === "node").map((type) => type.name)}
        nodes={nodes}
        edges={edges}
        places={places.current}
        selected={selected}
        onSelect={setSelected}
      />
      <p class="muted">
        <span class="insert">+ added</span>, <span class="update">~ changed</span>,{" "}
        <span class="delete">− removed (dashed)</span>; nodes without a sign only show where edges end.
      </p>
      {chosen.length > 0 && <ChangeList changes={chosen} types={types} />}
    </div>
  );
}

function sceneOf(
  changes: EntityChange[],
  types: { name: string; kind: string; label: string; source?: string; target?: string }[],
): { nodes: DrawnNode[]; edges: DrawnEdge[] } {
  const nodes = new Map<string, DrawnNode>();
  const edges: DrawnEdge[] = [];
  for (const change of changes) {
    const mark: Mark = change.op;
    const type = types.find((item) => item.name === change.type.name);
    const image = change.after ?? change.before;
    if (change.kind === "node") {
      const name = image?.properties?.[type?.label ?? ""];
      const label = typeof name === "string" && name !== "" ? name : change.id;
      nodes.set(`${change.type.name}/${change.id}`, {
        key: `${change.type.name}/${change.id}`,
        type: change.type.name,
        label,
        mark,
      });
    }
  }
  for (const change of changes) {
    if (change.kind !== "edge") continue;
    const type = types.find((item) => item.name === change.type.name);
    const image = change.after ?? change.before;
    const { from, to } = endsOf(image);
    const ends = [
      [type?.source ?? "", from],
      [type?.target ?? "", to],
    ] as const;
    for (const [name, id] of ends) {
      const key = `${name}/${id}`;
      if (!nodes.has(key)) nodes.set(key, { key, type: name, label: id, mark: null });
    }
    edges.push({
      key: `${change.type.name}/${change.id}`,
      from: ends[0].join("/"),
      to: ends[1].join("/"),
      label: change.type.name,
      mark: change.op,
    });
  }
  return { nodes: [...nodes.values()], edges };
}

