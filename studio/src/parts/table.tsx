/** A table of any length: only the rows in sight are in the document. */

import type { ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";

export interface Column<T> {
  name: string;
  cell: (row: T) => ComponentChildren;
  sort?: () => void;
  sorted?: "ascending" | "descending" | undefined;
}

const ROW_PX = 30;
const SPARE_ROWS = 12;
/** Browsers cut elements that are longer than some 33 million pixels. */
const HEIGHT_PX_MAX = 8_000_000;

export function Table<T>(props: {
  columns: Column<T>[];
  rows: T[];
  label: string;
  height?: number;
}) {
  const box = useRef<HTMLDivElement>(null);
  const [top, setTop] = useState(0);
  const [seen, setSeen] = useState(600);
  useEffect(() => {
    const element = box.current;
    if (element === null) return undefined;
    const watcher = new ResizeObserver(() => setSeen(element.clientHeight));
    watcher.observe(element);
    return () => watcher.disconnect();
  }, []);
  const count = props.rows.length;
  const height = Math.min(count * ROW_PX, HEIGHT_PX_MAX);
  const scale = count * ROW_PX > height ? (count * ROW_PX) / height : 1;
  const first = Math.max(0, Math.floor((top * scale) / ROW_PX) - SPARE_ROWS);
  const last = Math.min(count, first + Math.ceil(seen / ROW_PX) + 2 * SPARE_ROWS);
  const before = Math.min(first * ROW_PX, Math.max(0, height - (last - first) * ROW_PX));
  const after = Math.max(0, height - before - (last - first) * ROW_PX);
  return (
    <div
      class="table-box"
      ref={box}
      tabIndex={0}
      role="region"
      aria-label={props.label}
      onScroll={(event) => setTop(event.currentTarget.scrollTop)}
    >
      <table aria-rowcount={count + 1}>
        <thead>
          <tr>
            {props.columns.map((column) => (
              <th scope="col" aria-sort={column.sorted ?? "none"}>
                {column.sort === undefined ? (
                  column.name
                ) : (
                  <button class="plain" onClick={column.sort}>
                    {column.name}
                    {column.sorted === "ascending" ? " ▲" : ""}
                    {column.sorted === "descending" ? " ▼" : ""}
                  </button>
                )}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {before > 0 && <Spacer height={before} columns={props.columns.length} />}
          {props.rows.slice(first, last).map((row, index) => (
            <tr key={first + index} aria-rowindex={first + index + 2}>
              {props.columns.map((column) => (
                <td>{column.cell(row)}</td>
              ))}
            </tr>
          ))}
          {after > 0 && <Spacer height={after} columns={props.columns.length} />}
        </tbody>
      </table>
    </div>
  );
}

function Spacer(props: { height: number; columns: number }) {
  return (
    <tr aria-hidden="true">
      <td class="spacer" colSpan={props.columns} style={{ height: `${props.height}px` }} />
    </tr>
  );
}
