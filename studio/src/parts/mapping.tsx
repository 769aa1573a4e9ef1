import type { Row } from "../api";
import { targetsOf } from "../logic/mapping";
import { shorten } from "../logic/values";
import { useSession } from "../session";
import type { TypeInfo } from "../types";

/** What is known of a file before it is loaded. */
export interface TableHead {
  columns: string[];
  /** The value of each column in the first row. */
  firsts: string[];
  rows: number;
}

/** Which property each column of a file becomes. */
export function Mapping(props: {
  table: TableHead;
  type: TypeInfo | undefined;
  chosen: string[];
  chooseType: (type: TypeInfo | undefined) => void;
  chooseColumns: (chosen: string[]) => void;
}) {
  const { types } = useSession();
  const { table, type, chosen } = props;
  return (
    <div>
      <label>
        Each row is a
        <select
          value={type?.name ?? ""}
          onChange={(event) => props.chooseType(types.find((item) => item.name === event.currentTarget.value))}
        >
          {types.map((item) => (
            <option value={item.name}>
              {item.kind} {item.name}
            </option>
          ))}
        </select>
      </label>
      <table>
        <thead>
          <tr>
            <th scope="col">Column</th>
            <th scope="col">First value</th>
            <th scope="col">Becomes</th>
          </tr>
        </thead>
        <tbody>
          {table.columns.map((column, index) => (
            <tr>
              <td>{column}</td>
              <td>{shorten(table.firsts[index] ?? "")}</td>
              <td>
                <select
                  aria-label={`What ${column} becomes`}
                  value={chosen[index] ?? ""}
                  onChange={(event) => {
                    const next = table.columns.map((_, place) => chosen[place] ?? "");
                    next[index] = event.currentTarget.value;
                    props.chooseColumns(next);
                  }}
                >
                  <option value="">nothing</option>
                  {(type === undefined ? [] : targetsOf(type)).map((target) => (
                    <option value={target} disabled={chosen.includes(target) && chosen[index] !== target}>
                      {target}
                    </option>
                  ))}
                </select>
              </td>
            </tr>
          ))}
        </tbody>
      </table>
      <p class="muted">{table.rows.toLocaleString("en")} rows</p>
    </div>
  );
}

/** What is wrong with a file, by its lines or rows. */
export function Rejected(props: { problems: Row[]; leaveOut: (() => void) | null }) {
  const { problems } = props;
  return (
    <div role="alert">
      <h3>{problems.length === 1 ? "One problem" : `${problems.length} problems`}; nothing was written</h3>
      {props.leaveOut !== null && (
        <button class="small" onClick={props.leaveOut}>
          Leave these rows out and try again
        </button>
      )}
      <table>
        <thead>
          <tr>
            <th scope="col" class="brief">Line</th>
            <th scope="col" class="brief">Type</th>
            <th scope="col">Problem</th>
          </tr>
        </thead>
        <tbody>
          {problems.slice(0, 200).map((item) => (
            <tr>
              <td class="brief">{String(item["line"] ?? "")}</td>
              <td class="brief">{String(item["type"] ?? "")}</td>
              <td>{String(item["message"] ?? "")}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
