import { useState } from "preact/hooks";
import type { Problem } from "../api";
import { isBranch } from "../logic/address";
import { placeCommits, type Placed } from "../logic/lanes";
import { showMoment } from "../logic/values";
import { ErrorBox, Panel, Spinner } from "../parts/basics";
import { ChangeList } from "../parts/changes";
import { asProblem, useLoaded, useSession } from "../session";
import type { ChangesPage, Commit, EntityChange } from "../types";

const ROW = 34;
const LANE = 18;

export function History() {
  const { history, place, go, branches, ask } = useSession();
  const [older, setOlder] = useState<Commit[]>([]);
  const [token, setToken] = useState<string | undefined>(undefined);
  const commits = merged(history.commits, older);
  const trunk = branches.find((item) => item.name === "main") ?? branches[0];
  const placed = placeCommits(
    commits.map((commit) => ({
      id: commit.graph_commit_id,
      parents: [commit.parent_commit_id, commit.merged_parent_commit_id].filter((id) => id !== null),
    })),
    trunk?.head.graph_commit_id ?? null,
  );
  const lanes = Math.max(1, ...placed.map((item) => item.lane + 1));
  const names = new Map<string, string[]>();
  for (const [name, id] of Object.entries(history.heads)) names.set(id, [...(names.get(id) ?? []), name]);
  const tags = new Map<string, string[]>();
  for (const tag of history.tags) {
    if (tag.graph_commit_id !== null) {
      tags.set(tag.graph_commit_id, [...(tags.get(tag.graph_commit_id) ?? []), tag.name]);
    }
  }
  const chosen = place.params["commit"] ?? "";
  const next = token ?? (older.length === 0 ? history.next_page_token : undefined);
  return (
    <div class="stack">
      <h1>History</h1>
      <div class="with-inspector">
        <div class="scroll tall-scroll" tabIndex={0} role="region" aria-label="Commits">
          <div class="commits">
            <svg
              width={lanes * LANE + 12}
              height={placed.length * ROW}
              role="img"
              aria-label={`Commit graph: ${placed.length} commits in ${lanes} lanes`}
            >
              {placed.map((item) => item.links.map((link) => <Line from={item} link={link} />))}
              {placed.map((item) => (
                <circle
                  class={`lane${item.lane % 8} commit-dot`}
                  cx={item.lane * LANE + 12}
                  cy={item.row * ROW + ROW / 2}
                  r={item.links.length > 1 ? 6 : 4.5}
                />
              ))}
            </svg>
            <ol class="commit-rows">
              {commits.map((commit) => (
                <li>
                  <button
                    class="plain"
                    aria-current={commit.graph_commit_id === chosen ? "true" : undefined}
                    onClick={() => go("history", { commit: commit.graph_commit_id })}
                  >
                    <span class="when">{showMoment(commit.created_at)}</span>
                    <span class="kind">{commit.kind.replaceAll("_", " ")}</span>
                    <span class="who">{commit.actor_id ?? "—"}</span>
                    {commit.message !== undefined && <span class="said-so">{commit.message}</span>}
                    {(names.get(commit.graph_commit_id) ?? []).map((name) => (
                      <span class="chip branch">{name}</span>
                    ))}
                    {(tags.get(commit.graph_commit_id) ?? []).map((name) => (
                      <span class="chip tag">{name}</span>
                    ))}
                  </button>
                </li>
              ))}
            </ol>
          </div>
          {next !== undefined && (
            <button
              onClick={() => {
                void ask<{ commits: Commit[]; next_page_token?: string }>("/history", {
                  params: { page_token: next },
                }).then((found) => {
                  setOlder([...older, ...found.commits]);
                  setToken(found.next_page_token);
                });
              }}
            >
              Older commits
            </button>
          )}
        </div>
        <aside aria-label="Commit">
          {chosen === "" ? (
            <p class="muted">Choose a commit to see what it changed.</p>
          ) : (
            <CommitView key={chosen} id={chosen} />
          )}
        </aside>
      </div>
    </div>
  );
}

function merged(newest: Commit[], older: Commit[]): Commit[] {
  const known = new Set(newest.map((item) => item.graph_commit_id));
  return [...newest, ...older.filter((item) => !known.has(item.graph_commit_id))];
}

function Line(props: { from: Placed; link: Placed["links"][number] }) {
  const { from, link } = props;
  const [x1, y1] = [from.lane * LANE + 12, from.row * ROW + ROW / 2];
  if (link.row === null) {
    // Its parent is on no page here, or on a branch that may not be read.
    return <path class={`lane${from.lane % 8} commit-line stub`} d={`M${x1} ${y1} v${ROW / 2}`} />;
  }
  const [x2, y2] = [link.lane * LANE + 12, link.row * ROW + ROW / 2];
  const bend = y1 + ROW * 0.8;
  const path =
    x1 === x2
      ? `M${x1} ${y1} V${y2}`
      : link.lane > from.lane
        ? `M${x1} ${y1} C ${x1} ${bend}, ${x2} ${y1}, ${x2} ${bend} V${y2}`
        : `M${x1} ${y1} V${y2 - ROW * 0.8} C ${x1} ${y2}, ${x2} ${y2 - ROW * 0.8}, ${x2} ${y2}`;
  return <path class={`lane${Math.max(from.lane, link.lane) % 8} commit-line`} d={path} />;
}

function CommitView(props: { id: string }) {
  const { ask, go, at, refresh, say, types } = useSession();
  const commit = useLoaded((signal) => ask<Commit>(`/commits/${props.id}`, { signal }), props.id);
  const [changes, setChanges] = useState<EntityChange[]>([]);
  const [token, setToken] = useState<string | null | undefined>(undefined);
  const [problem, setProblem] = useState<Problem | null>(null);
  const more = useLoaded(async (signal) => {
    const page = await ask<ChangesPage>(`/commits/${props.id}/changes`, {
      params: { limit: 200, page_token: token ?? undefined },
      signal,
    });
    setChanges((old) => (token ? [...old, ...page.changes] : page.changes));
    return page;
  }, `${props.id} ${token ?? ""}`);
  const found = commit.value;
  const act = async (path: string, body: object, done: string): Promise<void> => {
    try {
      await ask(path, { body });
      setProblem(null);
      say(done);
      refresh();
    } catch (error) {
      setProblem(asProblem(error));
    }
  };
  if (commit.error !== null) return <ErrorBox problem={commit.error} />;
  if (found === null) return <Spinner />;
  return (
    <div class="stack">
      <Panel title="Commit">
        <dl class="properties">
          <dt>id</dt>
          <dd>
            <code>{found.graph_commit_id}</code>
          </dd>
          <dt>made</dt>
          <dd>{showMoment(found.created_at)} UTC</dd>
          <dt>by</dt>
          <dd>{found.actor_id ?? "—"}</dd>
          {found.message !== undefined && [<dt key="says">says</dt>, <dd key="message">{found.message}</dd>]}
          <dt>kind</dt>
          <dd>{found.kind.replaceAll("_", " ")}</dd>
          <dt>branch</dt>
          <dd>{found.graph_branch ?? "main"}</dd>
          <dt>version</dt>
          <dd>{found.manifest_version}</dd>
        </dl>
        <div class="row">
          <button class="small" onClick={() => go("explore", { at: props.id })}>
            Explore at it
          </button>
          <button class="small" onClick={() => go("query", { at: props.id })}>
            Query at it
          </button>
          <button
            class="small"
            disabled={!isBranch(at) || found.parent_commit_id === null}
            onClick={() => void act(`/commits/${props.id}/revert`, { branch: at }, `The commit was undone on ${at}.`)}
          >
            Undo on {isBranch(at) ? at : "a branch"}
          </button>
        </div>
        <NameForm act={act} id={props.id} />
        {problem !== null && <ErrorBox problem={problem} />}
      </Panel>
      <Panel title="Changes">
        {more.error !== null ? (
          <p class="muted">{more.error.message}</p>
        ) : (
          <ChangeList changes={changes} types={types} />
        )}
        {more.loading && <Spinner />}
        {more.value?.next_page_token !== undefined && (
          <button onClick={() => setToken(more.value?.next_page_token)}>More changes</button>
        )}
      </Panel>
    </div>
  );
}

function NameForm(props: { id: string; act: (path: string, body: object, done: string) => Promise<void> }) {
  const [name, setName] = useState("");
  return (
    <form class="row" onSubmit={(event) => event.preventDefault()}>
      <label>
        Name it
        <input value={name} onInput={(event) => setName(event.currentTarget.value)} />
      </label>
      <button
        class="small"
        disabled={name === ""}
        onClick={() => void props.act("/tags", { name, snapshot: props.id }, `Tag ${name} was made.`)}
      >
        Tag
      </button>
      <button
        class="small"
        disabled={name === ""}
        onClick={() => void props.act("/branches", { name, from: props.id }, `Branch ${name} was made.`)}
      >
        Branch
      </button>
    </form>
  );
}
