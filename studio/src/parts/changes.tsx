/** Changes of entities, property by property. */

import { showValue, propertyOf } from "../logic/values";
import { dataOf, endsOf, same } from "../logic/merging";
import type { EntityChange, TypeInfo } from "../types";

const SIGNS = { insert: "+", update: "~", delete: "−" } as const;

export function ChangeList(props: { changes: EntityChange[]; types: TypeInfo[] }) {
  if (props.changes.length === 0) return <p class="muted">Nothing differs.</p>;
  return (
    <ul class="changes">
      {props.changes.map((change) => (
        <Change change={change} type={props.types.find((type) => type.name === change.type.name)} />
      ))}
    </ul>
  );
}

function Change(props: { change: EntityChange; type: TypeInfo | undefined }) {
  const { change, type } = props;
  const [before, after] = [dataOf(change.before), dataOf(change.after)];
  const names = [...new Set([...Object.keys(before), ...Object.keys(after)])]
    .filter((name) => name !== "id")
    .filter((name) => (change.op === "update" ? !same(before[name], after[name]) : true))
    .filter((name) => (before[name] ?? after[name] ?? null) !== null);
  const image = change.after ?? change.before;
  const ends = endsOf(image);
  return (
    <li class={change.op}>
      <details open={names.length <= 6}>
        <summary>
          <span class="sign" aria-hidden="true">
            {SIGNS[change.op]}
          </span>{" "}
          <span class="op">{change.op}</span> <strong>{change.type.name}</strong> {change.id}
          {change.kind === "edge" && ` (${ends.from} → ${ends.to})`}
        </summary>
        <table>
          <tbody>
            {names.map((name) => (
              <tr>
                <th scope="row">{name}</th>
                {change.op !== "insert" && (
                  <td>
                    <del>{showValue(before[name], propertyOf(type, name))}</del>
                  </td>
                )}
                {change.op !== "delete" && (
                  <td>
                    <ins>{showValue(after[name], propertyOf(type, name))}</ins>
                  </td>
                )}
              </tr>
            ))}
          </tbody>
        </table>
      </details>
    </li>
  );
}
