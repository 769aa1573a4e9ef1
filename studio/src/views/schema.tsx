import { useState } from "preact/hooks";
import type { Problem } from "../api";
import { isBranch } from "../logic/address";
import { placeLayers } from "../logic/layered";
import { ErrorBox, Panel, Spinner, Tabs } from "../parts/basics";
import { Editor } from "../parts/editor";
import { asProblem, useSession } from "../session";
import type { LintReport, SchemaChange, TypeInfo } from "../types";

const TABS = ["Types", "Diagram", "Change"];

export function SchemaView() {
  const { schema, types, place, go } = useSession();
  const tab = TABS.find((name) => name.toLowerCase() === place.params["tab"]) ?? "Types";
  if (schema === null) return <Spinner what="the schema" />;
  return (
    <div class="stack">
      <h1>Schema</h1>
      <Tabs names={TABS} now={tab} choose={(name) => go("schema", { tab: name.toLowerCase() })} />
      {tab === "Types" && types.map((type) => <TypeCard type={type} />)}
      {tab === "Diagram" && <Diagram types={types} />}
      {tab === "Change" && <Change key={schema.schema_hash} />}
    </div>
  );
}

function TypeCard(props: { type: TypeInfo }) {
  const { type } = props;
  const ends = type.kind === "edge" ? `: ${type.source} → ${type.target}` : "";
  return (
    <Panel title={`${type.kind} ${type.name}${ends}`}>
      {type.kind === "edge" && type.cardinality !== "0.." && (
        <p>Edges for each source: {type.cardinality}</p>
      )}
      {type.properties.length === 0 ? (
        <p class="muted">No properties.</p>
      ) : (
        <table>
          <thead>
            <tr>
              <th scope="col">Property</th>
              <th scope="col">Type</th>
              <th scope="col">Rules</th>
            </tr>
          </thead>
          <tbody>
            {type.properties.map((item) => (
              <tr>
                <td>{item.name}</td>
                <td>
                  <code>{item.type}</code>
                </td>
                <td>
                  {item.key && <span class="chip">key</span>}
                  {item.unique && <span class="chip">unique</span>}
                  {item.indexed && <span class="chip">index</span>}
                  {item.description !== undefined && <span class="muted">{item.description}</span>}
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
      {type.constraints.map((text) => (
        <code class="block">{text}</code>
      ))}
    </Panel>
  );
}

const BOX = { width: 190, height: 62, across: 290, down: 112, left: 20, top: 50 };

function Diagram(props: { types: TypeInfo[] }) {
  const nodes = props.types.filter((type) => type.kind === "node");
  const edges = props.types.filter((type) => type.kind === "edge");
  const spots = placeLayers(
    nodes.map((type) => type.name),
    edges.map((edge) => ({ from: edge.source ?? "", to: edge.target ?? "" })),
  );
  const at = new Map(
    spots.map((spot) => [
      spot.name,
      { x: BOX.left + spot.layer * BOX.across, y: BOX.top + spot.order * BOX.down },
    ]),
  );
  const width = BOX.left + Math.max(1, ...spots.map((spot) => spot.layer + 1)) * BOX.across;
  const height = BOX.top + Math.max(1, ...spots.map((spot) => spot.order + 1)) * BOX.down;
  const used = new Map<string, number>();
  return (
    <Panel title="Diagram">
      <div class="scroll" tabIndex={0} role="region" aria-label="Diagram of the types">
        <svg
          width={width}
          height={height}
          role="img"
          aria-label={`${nodes.length} node types and ${edges.length} edge types`}
        >
          <defs>
            <marker id="tip" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="8" markerHeight="8" orient="auto">
              <path d="M0 0 8 4 0 8z" class="tip" />
            </marker>
          </defs>
          {edges.map((edge) => {
            const [a, b] = [at.get(edge.source ?? ""), at.get(edge.target ?? "")];
            if (a === undefined || b === undefined) return null;
            const pair = [edge.source, edge.target].sort().join(" ");
            const turn = used.get(pair) ?? 0;
            used.set(pair, turn + 1);
            return <EdgeLine edge={edge} from={a} to={b} turn={turn} />;
          })}
          {nodes.map((type) => {
            const place = at.get(type.name);
            if (place === undefined) return null;
            return (
              <g transform={`translate(${place.x} ${place.y})`}>
                <rect class="box" width={BOX.width} height={BOX.height} rx="6" />
                <text x="12" y="25" class="box-name">
                  {type.name}
                </text>
                <text x="12" y="46" class="box-more">
                  {type.properties.length} properties
                  {type.key.length > 0 ? `, key ${type.key.join(", ")}` : ""}
                </text>
              </g>
            );
          })}
        </svg>
      </div>
    </Panel>
  );
}

function EdgeLine(props: {
  edge: TypeInfo;
  from: { x: number; y: number };
  to: { x: number; y: number };
  turn: number;
}) {
  const { edge, from, to, turn } = props;
  const shift = turn * 16;
  let path: string;
  let label: { x: number; y: number };
  if (from === to) {
    const [x, y] = [from.x + 40 + turn * 74, from.y];
    path = `M${x} ${y} C ${x - 10} ${y - 34}, ${x + 50} ${y - 34}, ${x + 40} ${y}`;
    label = { x: x + 20, y: y - 30 };
  } else {
    const forward = from.x < to.x || (from.x === to.x && from.y < to.y);
    const below = from.x === to.x;
    const start = below
      ? { x: from.x + 60 + shift, y: forward ? from.y + BOX.height : from.y }
      : { x: forward ? from.x + BOX.width : from.x, y: from.y + 22 + shift };
    const end = below
      ? { x: to.x + 60 + shift, y: forward ? to.y : to.y + BOX.height }
      : { x: forward ? to.x : to.x + BOX.width, y: to.y + 22 + shift };
    const middle = (start.x + end.x) / 2;
    path = below
      ? `M${start.x} ${start.y} L ${end.x} ${end.y}`
      : `M${start.x} ${start.y} C ${middle} ${start.y}, ${middle} ${end.y}, ${end.x} ${end.y}`;
    label = { x: below ? start.x : middle, y: (start.y + end.y) / 2 - 5 };
  }
  return (
    <g>
      <path d={path} class="edge-line" marker-end="url(#tip)" />
      <text x={label.x} y={label.y} class="edge-name">
        {edge.name}
      </text>
    </g>
  );
}

function Change() {
  const { schema, ask, at, refresh, say } = useSession();
  const [text, setText] = useState(schema?.schema_source ?? "");
  const [begun] = useState(text);
  const [plan, setPlan] = useState<SchemaChange | null>(null);
  const [problem, setProblem] = useState<Problem | null>(null);
  const [busy, setBusy] = useState(false);
  if (schema?.schema_source === null) {
    return <p>This is a schema of the past; the text of the newest one can be changed.</p>;
  }
  const send = async (apply: boolean): Promise<void> => {
    setBusy(true);
    try {
      const found = await ask<SchemaChange>(apply ? "/schema/apply" : "/schema/plan", {
        body: { schema_source: text },
      });
      setProblem(null);
      setPlan(apply ? null : found);
      if (apply) {
        say("The schema was applied.");
        refresh();
      }
    } catch (error) {
      setPlan(null);
      setProblem(asProblem(error));
    } finally {
      setBusy(false);
    }
  };
  return (
    <Panel title="Change the schema">
      <p>Edit the text, look at the plan, then apply it. Nothing is written before that.</p>
      <div class="editor-box tall">
        <Editor
          text={begun}
          version={0}
          label="Schema text"
          types={[]}
          onChange={(next) => {
            setText(next);
            setPlan(null);
          }}
          lint={async (source, signal) =>
            (await ask<LintReport>("/lint", { body: { source, language: "pg" }, signal })).diagnostics
          }
        />
      </div>
      <div class="row">
        <button class="main" disabled={busy} onClick={() => void send(false)}>
          Plan
        </button>
        <button
          disabled={busy || !plan?.supported || plan.steps.length === 0 || plan.problems.length > 0 || !isBranch(at)}
          onClick={() => void send(true)}
        >
          Apply
        </button>
      </div>
      {problem !== null && <ErrorBox problem={problem} />}
      {plan !== null && <PlanOf plan={plan} />}
    </Panel>
  );
}

function PlanOf(props: { plan: SchemaChange }) {
  const { plan } = props;
  const lines = (plan.render ?? "").split("\n");
  return (
    <div>
      <h3>{plan.steps.length === 0 ? "No changes" : `${plan.steps.length} steps`}</h3>
      <ul class="steps">
        {lines.map((line) => (
          <li class={/^(drop|problem)/.test(line) ? "bad" : /^supported: no/.test(line) ? "bad" : ""}>
            {line}
          </li>
        ))}
      </ul>
    </div>
  );
}
