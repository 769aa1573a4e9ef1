import { useState } from "preact/hooks";
import type { Problem } from "../api";
import { stateBody, stateParams } from "../logic/address";
import { writeExact } from "../logic/exact";
import { searchQuery, wayKey, wayName, waysOf, type Way } from "../logic/searching";
import { ErrorBox } from "../parts/basics";
import { asProblem, useSession } from "../session";
import type { PictureNode, ReadOutput, TypeInfo } from "../types";
import type { Row } from "../api";

const ALL = "";

/** Finds a node to begin with: by a part of its name, by words, or by a vector. */
export function Search(props: { open: (found: { type: string; id: string }) => void }) {
  const { types, ask, at, place } = useSession();
  const nodes = types.filter((type) => type.kind === "node");
  const [name, setName] = useState<string | null>(null);
  const [wanted, setWanted] = useState("contains");
  const [text, setText] = useState("");
  const [found, setFound] = useState<PictureNode[] | null>(null);
  const [problem, setProblem] = useState<Problem | null>(null);
  const type = name === null ? nodes[0] : nodes.find((item) => item.name === name);
  if (nodes.length === 0) return null;
  const ways = type === undefined ? [] : waysOf(type);
  const way = ways.find((item) => wayKey(item) === wanted) ?? ways[0];
  const selected = { type: place.params["type"], id: place.params["id"] };

  const look = async (of: TypeInfo, by: Way, typed: string): Promise<PictureNode[]> => {
    const result = await ask<ReadOutput>("/query", {
      body: { ...searchQuery(of, by, typed), form: "graph", ...stateBody(at) },
    });
    const known = new Map((result.graph?.nodes ?? []).map((node) => [node.id, node]));
    // In the order of the rows: the best first.
    return result.rows.flatMap((row) => known.get(String(row["n"])) ?? []);
  };
  const search = async (typed: string): Promise<void> => {
    try {
      setFound(
        type === undefined || way === undefined ? await everywhere(typed) : await look(type, way, typed),
      );
      setProblem(null);
    } catch (error) {
      setFound(null);
      setProblem(asProblem(error));
    }
  };
  /** Every type at once: words where there is an index, else a part of the name. */
  const everywhere = async (typed: string): Promise<PictureNode[]> => {
    const asked = nodes.flatMap((item) => {
      const words = waysOf(item).filter((by) => by.kind === "words");
      const ways: Way[] = typed.trim() === "" || words.length === 0 ? [{ kind: "contains" }] : words;
      return ways.map((by) => look(item, by, typed));
    });
    const once = new Map((await Promise.all(asked)).flat().map((node) => [`${node.type}/${node.id}`, node]));
    return [...once.values()];
  };
  /** Search by the vector of the node that is selected. */
  const likeSelected = async (property: string): Promise<void> => {
    const answer = await ask<{ entity: { data: Row } | null }>("/entity", {
      params: { table: `node:${selected.type}`, id: selected.id, ...stateParams(at) },
    });
    const vector = answer.entity?.data[property];
    if (!Array.isArray(vector)) {
      setProblem(asProblem(new Error(`${selected.id} has no ${property}.`)));
      return;
    }
    const typed = writeExact(vector);
    setText(typed);
    await search(typed);
  };
  return (
    <div>
      <form
        class="row"
        onSubmit={(event) => {
          event.preventDefault();
          void search(text);
        }}
      >
        <label>
          Type
          <select value={type?.name ?? ALL} onChange={(event) => setName(event.currentTarget.value)}>
            {nodes.map((item) => (
              <option value={item.name}>{item.name}</option>
            ))}
            {nodes.length > 1 && <option value={ALL}>all types</option>}
          </select>
        </label>
        {type !== undefined && ways.length > 1 && (
          <label>
            By
            <select
              value={way === undefined ? "contains" : wayKey(way)}
              onChange={(event) => setWanted(event.currentTarget.value)}
            >
              {ways.map((item) => (
                <option value={wayKey(item)}>{wayName(item, type)}</option>
              ))}
            </select>
          </label>
        )}
        <label>
          {type === undefined ? "Words, or a part of the name" : hint(type, way)}
          <input value={text} onInput={(event) => setText(event.currentTarget.value)} />
        </label>
        <button class="main">Search</button>
        {way?.kind === "near" && selected.id !== undefined && selected.type === type?.name && (
          <button type="button" onClick={() => void likeSelected(way.property)}>
            Like {selected.id}
          </button>
        )}
      </form>
      {problem !== null && <ErrorBox problem={problem} />}
      {found !== null && (
        <ul class="results" aria-label="Found">
          {found.length === 0 && <li class="muted">Nothing was found.</li>}
          {found.map((node) => (
            <li>
              <button
                class="small"
                onClick={() => {
                  setFound(null);
                  props.open(node);
                }}
              >
                {node.label} {type === undefined && <span class="muted">{node.type}</span>}
              </button>
            </li>
          ))}
        </ul>
      )}
    </div>
  );
}

function hint(type: TypeInfo, way: Way | undefined): string {
  if (way?.kind === "words") return `Words in ${way.property}`;
  if (way?.kind === "near") return `A text, or ${way.size} numbers: [0.1, …]`;
  return `Text in ${type.label} or id (all when empty)`;
}
