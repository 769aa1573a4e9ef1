import { useState } from "preact/hooks";
import { stateParams } from "../logic/address";
import { showMoment } from "../logic/values";
import { CommitLine, ErrorBox, Panel } from "../parts/basics";
import { asProblem, call, useLoaded, useSession } from "../session";
import type { Problem } from "../api";
import type { Snapshot } from "../types";

export function Overview() {
  const { ask, at, branches, history, go, me, graph, schema } = useSession();
  const head = history.commits[0]?.graph_commit_id ?? "";
  const sizes = useLoaded(
    (signal) => ask<Snapshot>("/snapshot", { params: stateParams(at), signal }),
    `${graph} ${at} ${head}`,
  );
  const health = useLoaded((signal) => call<{ status: string }>("/readyz", { signal }), `${graph} ${head}`);
  const state = health.error === null ? (health.value?.status ?? "…") : "not ready";
  const rows = sizes.value?.tables ?? [];
  const total = (kind: string): number =>
    rows.filter((row) => row.table_key.startsWith(kind)).reduce((sum, row) => sum + row.row_count, 0);
  return (
    <div class="stack">
      <h1>{graph}</h1>
      <div class="cards">
        <Card name="Nodes" value={total("node:").toLocaleString("en")} />
        <Card name="Edges" value={total("edge:").toLocaleString("en")} />
        <Card name="Types" value={String(schema?.types.length ?? "…")} />
        <Card name="Branches" value={String(branches.length)} />
        <Card name="Server" value={`${me.version}, ${state}`} />
      </div>
      {sizes.error !== null && <ErrorBox problem={sizes.error} />}
      <Branches />
      <div class="columns">
        <Panel title="Sizes">
          <table>
            <thead>
              <tr>
                <th scope="col">Type</th>
                <th scope="col">Kind</th>
                <th scope="col" class="number">
                  Rows
                </th>
              </tr>
            </thead>
            <tbody>
              {rows.map((row) => {
                const [kind, name] = row.table_key.split(":");
                return (
                  <tr>
                    <td>{name}</td>
                    <td>{kind}</td>
                    <td class="number">{row.row_count.toLocaleString("en")}</td>
                  </tr>
                );
              })}
            </tbody>
          </table>
        </Panel>
        <Panel title="Last commits">
          <ul class="plain-list">
            {history.commits.slice(0, 10).map((commit) => (
              <li>
                <button
                  class="plain link"
                  onClick={() => go("history", { commit: commit.graph_commit_id })}
                >
                  <CommitLine commit={commit} />
                </button>
              </li>
            ))}
          </ul>
        </Panel>
      </div>
      <p>
        <a href="/openapi.json" target="_blank" rel="noreferrer">
          API reference (OpenAPI)
        </a>
      </p>
    </div>
  );
}

function Card(props: { name: string; value: string }) {
  return (
    <div class="card small">
      <span class="muted">{props.name}</span>
      <strong>{props.value}</strong>
    </div>
  );
}

function Branches() {
  const { branches, go, ask, refresh, at, say } = useSession();
  const [name, setName] = useState("");
  const [problem, setProblem] = useState<Problem | null>(null);
  const base = branches.find((item) => item.name === "main")?.name ?? branches[0]?.name ?? "main";
  const create = async (): Promise<void> => {
    try {
      const from = at.startsWith("tag:") ? at.slice(4) : at;
      await ask("/branches", { body: { name, from } });
      setProblem(null);
      say(`Branch ${name} was made from ${from}.`);
      setName("");
      refresh();
    } catch (error) {
      setProblem(asProblem(error));
    }
  };
  return (
    <Panel title="Branches">
      <table>
        <thead>
          <tr>
            <th scope="col">Branch</th>
            <th scope="col">Against {base}</th>
            <th scope="col">Last commit</th>
            <th scope="col">By</th>
            <th scope="col">Do</th>
          </tr>
        </thead>
        <tbody>
          {branches.map((item) => (
            <tr>
              <td>
                <strong>{item.name}</strong>
              </td>
              <td>
                {item.name === base ? "—" : `${item.ahead} ahead, ${item.behind} behind`}
              </td>
              <td>{showMoment(item.head.created_at)}</td>
              <td>{item.head.actor_id ?? "—"}</td>
              <td>
                <button class="small" onClick={() => go("explore", { at: item.name })}>
                  Explore
                </button>{" "}
                {item.name !== base && (
                  <button class="small" onClick={() => go("compare", { source: item.name, target: base })}>
                    Compare
                  </button>
                )}
              </td>
            </tr>
          ))}
        </tbody>
      </table>
      <form
        class="row"
        onSubmit={(event) => {
          event.preventDefault();
          void create();
        }}
      >
        <label>
          New branch from {at}
          <input value={name} onInput={(event) => setName(event.currentTarget.value)} required />
        </label>
        <button>Make branch</button>
      </form>
      {problem !== null && <ErrorBox problem={problem} />}
    </Panel>
  );
}
