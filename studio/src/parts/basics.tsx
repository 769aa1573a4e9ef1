import type { ComponentChildren } from "preact";
import { Problem } from "../api";
import { showMoment, showValue, propertyOf } from "../logic/values";
import type { Row } from "../api";
import type { Commit, TypeInfo } from "../types";

export function Spinner(props: { what?: string }) {
  return (
    <p class="muted" role="status">
      Loading{props.what === undefined ? "" : ` ${props.what}`}…
    </p>
  );
}

export function ErrorBox(props: { problem: Problem; again?: () => void }) {
  const { problem } = props;
  return (
    <div class="error" role="alert">
      <strong>{problem.status === 403 ? "Not allowed" : "That did not work"}</strong>
      <pre>{problem.message}</pre>
      {problem.hint !== null && <p>{problem.hint}</p>}
      {props.again !== undefined && <button onClick={props.again}>Try again</button>}
    </div>
  );
}

export function Panel(props: { title: string; children: ComponentChildren; aside?: ComponentChildren }) {
  return (
    <section class="panel" aria-label={props.title}>
      <div class="panel-head">
        <h2>{props.title}</h2>
        {props.aside}
      </div>
      {props.children}
    </section>
  );
}

export function Tabs(props: { names: string[]; now: string; choose: (name: string) => void }) {
  return (
    <div class="tabs" role="tablist">
      {props.names.map((name) => (
        <button
          role="tab"
          aria-selected={name === props.now}
          tabIndex={name === props.now ? 0 : -1}
          onClick={() => props.choose(name)}
          onKeyDown={(event) => {
            const step = event.key === "ArrowRight" ? 1 : event.key === "ArrowLeft" ? -1 : 0;
            if (step === 0) return;
            const next = (props.names.indexOf(name) + step + props.names.length) % props.names.length;
            props.choose(props.names[next] ?? name);
            const other = event.currentTarget.parentElement?.children[next];
            if (other instanceof HTMLElement) other.focus();
          }}
        >
          {name}
        </button>
      ))}
    </div>
  );
}

export function CommitLine(props: { commit: Commit }) {
  const { commit } = props;
  return (
    <span>
      <code>{commit.graph_commit_id.slice(-8)}</code> {commit.kind.replaceAll("_", " ")} by{" "}
      {commit.actor_id ?? "—"}, {showMoment(commit.created_at)}
      {commit.message !== undefined && `: ${commit.message}`}
    </span>
  );
}

export function Properties(props: { data: Row; type: TypeInfo | undefined }) {
  const names = Object.keys(props.data).filter((name) => name !== "id");
  return (
    <dl class="properties">
      <dt>id</dt>
      <dd>{showValue(props.data["id"])}</dd>
      {names.map((name) => [
        <dt key={name}>{name}</dt>,
        <dd key={`${name} value`}>{showValue(props.data[name], propertyOf(props.type, name))}</dd>,
      ])}
    </dl>
  );
}

export function download(name: string, kind: string, text: BlobPart): void {
  const address = URL.createObjectURL(new Blob([text], { type: kind }));
  const link = document.createElement("a");
  link.href = address;
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(address), 1_000);
}
