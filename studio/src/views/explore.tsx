import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import type { Json, Problem, Row } from "../api";
import { isBranch, stateBody, stateParams } from "../logic/address";
import { same } from "../logic/merging";
import { editText, readValue, showMoment, showValue } from "../logic/values";
import { ErrorBox, Panel, Spinner } from "../parts/basics";
import { Picture, type DrawnEdge, type DrawnNode, type Places } from "../parts/picture";
import { asProblem, useLoaded, useSession } from "../session";
import { Search } from "./search";
import type {
  EntityHistory,
  NeighbourPage,
  PictureEdge,
  PictureNode,
  Subgraph,
  TypeInfo,
} from "../types";

interface Scene {
  nodes: Map<string, PictureNode>;
  edges: Map<string, PictureEdge>;
}

const PAGE = 50;
const EMPTY: Scene = { nodes: new Map(), edges: new Map() };
/** Places by graph, kept while the page is open: going to another commit does not shuffle them. */
const kept = new Map<string, Places>();

const keyOf = (type: string, id: string): string => `${type}/${id}`;

export function Explore() {
  const { types, place, go, graph, at, ask } = useSession();
  const [past, setPast] = useState<Scene[]>([EMPTY]);
  const [future, setFuture] = useState<Scene[]>([]);
  const [problem, setProblem] = useState<Problem | null>(null);
  const scene = past[past.length - 1] ?? EMPTY;
  const places = useMemo(() => {
    const found = kept.get(graph) ?? new Map();
    kept.set(graph, found);
    return found;
  }, [graph]);
  const [type, id] = [place.params["type"] ?? "", place.params["id"] ?? ""];
  const selected = type === "" ? null : keyOf(type, id);
  const grow = (nodes: PictureNode[], edges: PictureEdge[]): void => {
    setPast((old) => {
      const last = old[old.length - 1] ?? EMPTY;
      const next = { nodes: new Map(last.nodes), edges: new Map(last.edges) };
      for (const node of nodes) next.nodes.set(keyOf(node.type, node.id), node);
      for (const edge of edges) next.edges.set(`${edge.edge}/${edge.id}`, edge);
      const grew = next.nodes.size !== last.nodes.size || next.edges.size !== last.edges.size;
      return grew ? [...old, next] : [...old.slice(0, -1), next];
    });
    setFuture([]);
  };
  const expand = async (ofType: string, ofId: string, more: Record<string, string> = {}): Promise<void> => {
    try {
      const page = await ask<NeighbourPage>("/neighbours", {
        params: { type: ofType, id: ofId, limit: PAGE, ...stateParams(at), ...more },
      });
      setProblem(null);
      grow(page.neighbours, page.neighbours.map((item) => edgeOf(page, item)));
    } catch (error) {
      setProblem(asProblem(error));
    }
  };

  // Another state shows the same nodes as they are there; those it does not have vanish.
  const shownAt = useRef(at);
  useEffect(() => {
    if (shownAt.current === at || scene.nodes.size === 0) return;
    shownAt.current = at;
    const nodes = [...scene.nodes.values()].map((node) => [node.type, node.id]);
    ask<Subgraph>("/subgraph", { body: { nodes, ...stateBody(at) } }).then(
      (found) => {
        setPast([EMPTY]);
        grow(found.nodes, found.edges);
      },
      (error: unknown) => setProblem(asProblem(error)),
    );
  }, [at]);
  useEffect(() => {
    if (type === "" || scene.nodes.has(keyOf(type, id))) return;
    shownAt.current = at;
    ask<Subgraph>("/subgraph", { body: { nodes: [[type, id]], ...stateBody(at) } }).then(
      (found) => {
        grow(found.nodes, found.edges);
        if (found.nodes.length > 0) void expand(type, id);
        else setProblem(asProblem(new Error(`There is no ${type} '${id}' at ${at}.`)));
      },
      (error: unknown) => setProblem(asProblem(error)),
    );
  }, [type, id, at]);

  const select = (key: string): void => {
    const node = scene.nodes.get(key);
    if (node !== undefined) go("explore", { type: node.type, id: node.id });
  };
  const nodes: DrawnNode[] = [...scene.nodes.values()].map((node) => ({
    key: keyOf(node.type, node.id),
    type: node.type,
    label: node.label,
  }));
  const edges: DrawnEdge[] = [...scene.edges.values()].map((edge) => ({
    key: `${edge.edge}/${edge.id}`,
    from: keyOf(edge.source_type, edge.from),
    to: keyOf(edge.target_type, edge.to),
    label: edge.edge,
  }));
  return (
    <div class="stack">
      <h1>Explore</h1>
      <Search open={(found) => go("explore", { type: found.type, id: found.id })} />
      {problem !== null && <ErrorBox problem={problem} />}
      <div class="row">
        <button
          class="small"
          disabled={past.length < 2}
          onClick={() => {
            setFuture([scene, ...future]);
            setPast(past.slice(0, -1));
          }}
        >
          Undo
        </button>
        <button
          class="small"
          disabled={future.length === 0}
          onClick={() => {
            const [next, ...rest] = future;
            if (next !== undefined) setPast([...past, next]);
            setFuture(rest);
          }}
        >
          Redo
        </button>
        <button
          class="small"
          disabled={scene.nodes.size === 0}
          onClick={() => {
            setPast([...past, EMPTY]);
            go("explore");
          }}
        >
          Clear
        </button>
        <span class="muted">Click selects, a double click expands, drag moves, the wheel zooms.</span>
      </div>
      <div class="with-inspector">
        <Picture
          label="Picture of what was explored"
          types={types.filter((item) => item.kind === "node").map((item) => item.name)}
          nodes={nodes}
          edges={edges}
          places={places}
          selected={selected}
          onSelect={select}
          onExpand={(key) => {
            const node = scene.nodes.get(key);
            if (node !== undefined) void expand(node.type, node.id);
          }}
        />
        <aside aria-label="Inspector">
          {selected === null ? (
            <p class="muted">Search for a node, or choose one of the list.</p>
          ) : (
            <Inspector type={type} id={id} expand={expand} />
          )}
          <h3>Nodes in the picture</h3>
          <ul class="plain-list tall-list" tabIndex={0} aria-label="Nodes in the picture">
            {nodes.slice(0, 300).map((node) => (
              <li>
                <button
                  class="plain link"
                  aria-current={node.key === selected ? "true" : undefined}
                  onClick={() => select(node.key)}
                >
                  {node.label} <span class="muted">{node.type}</span>
                </button>
              </li>
            ))}
          </ul>
        </aside>
      </div>
    </div>
  );
}

function edgeOf(page: NeighbourPage, item: NeighbourPage["neighbours"][number]): PictureEdge {
  const out = item.direction === "out";
  return {
    edge: item.edge,
    id: item.edge_id,
    source_type: out ? page.type : item.type,
    from: out ? page.id : item.id,
    target_type: out ? item.type : page.type,
    to: out ? item.id : page.id,
  };
}

function Inspector(props: {
  type: string;
  id: string;
  expand: (type: string, id: string, more?: Record<string, string>) => Promise<void>;
}) {
  const { ask, at, types, graph, history } = useSession();
  const { type, id } = props;
  const head = history.commits[0]?.graph_commit_id ?? "";
  const declared = types.find((item) => item.name === type);
  const found = useLoaded(
    (signal) =>
      Promise.all([
        ask<{ entity: { data: Row } | null }>("/entity", {
          params: { table: `node:${type}`, id, ...stateParams(at) },
          signal,
        }),
        ask<NeighbourPage>("/neighbours", { params: { type, id, limit: 0, ...stateParams(at) }, signal }),
      ]),
    `${graph} ${type} ${id} ${at} ${head}`,
  );
  if (found.error !== null) return <ErrorBox problem={found.error} />;
  if (found.value === null) return <Spinner />;
  const [{ entity }, around] = found.value;
  if (entity === null) return <p class="muted">It is not there at this state.</p>;
  return (
    <div class="stack">
      <h2>{around.label}</h2>
      <p class="muted">{type}</p>
      <Editable data={entity.data} type={declared} id={id} changed={found.again} />
      <h3>Edges</h3>
      <ul class="plain-list">
        {around.counts.map((item) => (
          <li>
            <button
              class="small"
              disabled={item.count === 0}
              onClick={() => void props.expand(type, id, { edge: item.edge, direction: item.direction })}
            >
              {item.direction === "out" ? `${item.edge} → ${item.other}` : `${item.other} → ${item.edge}`} (
              {item.count.toLocaleString("en")})
            </button>
          </li>
        ))}
      </ul>
      <Blame type={type} id={id} declared={declared} />
    </div>
  );
}

function Editable(props: { data: Row; type: TypeInfo | undefined; id: string; changed: () => void }) {
  const { ask, at, refresh, say } = useSession();
  const [name, setName] = useState<string | null>(null);
  const [text, setText] = useState("");
  const [problem, setProblem] = useState<Problem | null>(null);
  const fixed = (property: string): boolean => props.type?.key.includes(property) ?? true;
  const write = async (): Promise<void> => {
    const declared = props.type?.properties.find((item) => item.name === name);
    if (declared === undefined || props.type === undefined) return;
    try {
      const value: Json =
        text === "" && declared.nullable ? null : readValue(text, declared.scalar, declared.is_list);
      const query = `query edit($id: String, $value: ${parameterType(declared.type)}) { update ${props.type.name} set { ${declared.name}: $value } where id = $id }`;
      await ask("/mutate", { body: { query, params: { id: props.id, value }, ...stateBody(at) } });
      setName(null);
      setProblem(null);
      say(`${props.type.name} ${props.id} was changed on ${at}.`);
      props.changed();
      refresh();
    } catch (error) {
      setProblem(asProblem(error));
    }
  };
  return (
    <div>
      <dl class="properties">
        <dt>id</dt>
        <dd>{props.id}</dd>
        {(props.type?.properties ?? []).map((item) => [
          <dt key={item.name}>{item.name}</dt>,
          <dd key={`${item.name} value`}>
            {name === item.name ? (
              <form
                class="row"
                onSubmit={(event) => {
                  event.preventDefault();
                  void write();
                }}
              >
                <input
                  aria-label={`New value of ${item.name}`}
                  value={text}
                  onInput={(event) => setText(event.currentTarget.value)}
                />
                <button class="small">Save</button>
                <button class="small" type="button" onClick={() => setName(null)}>
                  Back
                </button>
              </form>
            ) : (
              <span>
                {showValue(props.data[item.name], item)}{" "}
                {isBranch(at) && !fixed(item.name) && !["Blob", "Vector"].includes(item.scalar) && (
                  <button
                    class="tiny"
                    aria-label={`Edit ${item.name}`}
                    onClick={() => {
                      setText(editText(props.data[item.name], item));
                      setProblem(null);
                      setName(item.name);
                    }}
                  >
                    edit
                  </button>
                )}
              </span>
            )}
          </dd>,
        ])}
      </dl>
      {problem !== null && <ErrorBox problem={problem} />}
    </div>
  );
}

/** Enum values travel as text. */
function parameterType(type: string): string {
  return type.replace(/enum\([^)]*\)/, "String");
}

function Blame(props: { type: string; id: string; declared: TypeInfo | undefined }) {
  const { ask, at, branches, history } = useSession();
  const [open, setOpen] = useState(false);
  const branch = stateParams(at).branch ?? branches[0]?.name ?? "main";
  const head = history.commits[0]?.graph_commit_id ?? "";
  const found = useLoaded(
    open
      ? (signal) =>
          ask<EntityHistory>("/entity/history", { params: { type: props.type, id: props.id, branch }, signal })
      : null,
    `${props.type} ${props.id} ${branch} ${open} ${head}`,
  );
  return (
    <Panel
      title="Who changed it"
      aside={
        <button class="small" aria-expanded={open} onClick={() => setOpen(!open)}>
          {open ? "Hide" : "Show"}
        </button>
      }
    >
      {found.error !== null && <ErrorBox problem={found.error} />}
      {open && found.loading && <Spinner />}
      <ol class="plain-list">
        {(found.value?.versions ?? []).map((version) => (
          <li>
            <strong>{version.op}</strong> by {version.commit.actor_id ?? "—"},{" "}
            {showMoment(version.commit.created_at)}
            <ul>
              {changedNames(version.before?.data, version.after?.data).map((name) => (
                <li>
                  {name}: {showValue(version.before?.data?.[name], prop(props.declared, name))} →{" "}
                  {showValue(version.after?.data?.[name], prop(props.declared, name))}
                </li>
              ))}
            </ul>
          </li>
        ))}
      </ol>
    </Panel>
  );
}

const prop = (type: TypeInfo | undefined, name: string) =>
  type?.properties.find((item) => item.name === name);

function changedNames(before: Row | undefined, after: Row | undefined): string[] {
  if (before === undefined || after === undefined) return [];
  return Object.keys(after).filter((name) => !same(before[name], after[name]));
}
