/** Numbers of the Prometheus text format, and what changed between two looks at them. */

export interface Sample {
  name: string;
  labels: Record<string, string>;
  value: number;
}

const LINE = /^([A-Za-z_:][\w:]*)(?:\{(.*)\})?\s+(\S+)(?:\s+\d+)?$/;
const LABEL = /([A-Za-z_]\w*)="((?:[^"\\]|\\.)*)"/g;

export function parseMetrics(text: string): Sample[] {
  const found: Sample[] = [];
  for (const line of text.split("\n")) {
    if (line === "" || line.startsWith("#")) continue;
    const parts = LINE.exec(line.trim());
    if (parts === null) continue;
    const labels: Record<string, string> = {};
    for (const [, name, value] of (parts[2] ?? "").matchAll(LABEL)) {
      if (name !== undefined) labels[name] = unescape(value ?? "");
    }
    found.push({ name: parts[1] ?? "", labels, value: Number(parts[3]) });
  }
  return found;
}

const unescape = (text: string): string =>
  text.replace(/\\(.)/g, (_, mark: string) => (mark === "n" ? "\n" : mark));

export function total(samples: Sample[], name: string, where: Record<string, string> = {}): number {
  return samples
    .filter((item) => item.name === name)
    .filter((item) => Object.entries(where).every(([key, value]) => item.labels[key] === value))
    .reduce((sum, item) => sum + item.value, 0);
}

/** One look at a server: when, and what it had counted. */
export interface Look {
  at: number;
  samples: Sample[];
}

/** What a counter grew by in each second between looks; a restart begins anew, never below zero. */
export function rates(looks: Look[], count: (samples: Sample[]) => number): number[] {
  return looks.slice(1).map((look, index) => {
    const before = looks[index] as Look;
    const seconds = Math.max((look.at - before.at) / 1000, 0.001);
    const [old, now] = [count(before.samples), count(look.samples)];
    return (now < old ? now : now - old) / seconds;
  });
}

/** Mean seconds of the requests that were answered between looks; null when there were none. */
export function means(looks: Look[], name: string): (number | null)[] {
  return looks.slice(1).map((look, index) => {
    const before = looks[index] as Look;
    const of = (samples: Sample[], part: string): number => total(samples, `${name}_${part}`);
    const count = of(look.samples, "count") - of(before.samples, "count");
    const sum = of(look.samples, "sum") - of(before.samples, "sum");
    return count > 0 && sum >= 0 ? sum / count : null;
  });
}

/** The points of a line in a box; where there is no value the line has a gap. */
export function linePoints(
  values: (number | null)[],
  width: number,
  height: number,
): { lines: string[]; most: number } {
  const known = values.filter((value): value is number => value !== null);
  const most = Math.max(0, ...known);
  const step = values.length > 1 ? width / (values.length - 1) : 0;
  const lines: string[] = [];
  let open: string[] = [];
  const end = (): void => {
    if (open.length > 0) lines.push(open.join(" "));
    open = [];
  };
  values.forEach((value, index) => {
    if (value === null) return end();
    const y = most === 0 ? height : height - (value / most) * height;
    open.push(`${round(index * step)},${round(y)}`);
  });
  end();
  return { lines, most };
}

const round = (value: number): number => Math.round(value * 10) / 10;

const UNITS = ["bytes", "kB", "MB", "GB", "TB"];

export function showBytes(bytes: number): string {
  let [value, unit] = [bytes, 0];
  while (value >= 1000 && unit < UNITS.length - 1) {
    value /= 1000;
    unit += 1;
  }
  return `${unit === 0 ? value : value.toPrecision(3)} ${UNITS[unit]}`;
}
