/** A small line over time, with its newest value and its greatest as text. */

import { linePoints } from "../logic/metrics";

const WIDTH = 220;
const HEIGHT = 56;

export function Chart(props: { name: string; values: (number | null)[]; show: (value: number) => string }) {
  const { lines, most } = linePoints(props.values, WIDTH, HEIGHT);
  const last = props.values.at(-1);
  const now = last === null || last === undefined ? "—" : props.show(last);
  return (
    <figure class="chart">
      <figcaption>
        <span class="muted">{props.name}</span> <strong>{now}</strong>
      </figcaption>
      <svg
        viewBox={`0 -3 ${WIDTH} ${HEIGHT + 6}`}
        role="img"
        aria-label={`${props.name}: now ${now}, at most ${props.show(most)} since this page looks`}
      >
        <line class="chart-floor" x1={0} x2={WIDTH} y1={HEIGHT} y2={HEIGHT} />
        {lines.map((points) =>
          points.includes(" ") ? (
            <polyline class="chart-line" points={points} />
          ) : (
            <circle class="chart-dot" cx={points.split(",")[0]} cy={points.split(",")[1]} r={2} />
          ),
        )}
      </svg>
      <span class="muted">at most {props.show(most)}</span>
    </figure>
  );
}
