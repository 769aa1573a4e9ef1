/** Places node types in layers, so that most edges lead to the right. */

export interface Link {
  from: string;
  to: string;
}

export interface Spot {
  name: string;
  layer: number;
  order: number;
}

export function placeLayers(names: string[], links: Link[], perLayer = 6): Spot[] {
  const layer = new Map(names.map((name) => [name, 0]));
  const forward = links.filter((link) => link.from !== link.to);
  // A longest path, cut short: cycles would go on for ever.
  for (let round = 0; round < names.length; round += 1) {
    let moved = false;
    for (const { from, to } of forward) {
      const wanted = (layer.get(from) ?? 0) + 1;
      if (wanted > (layer.get(to) ?? 0) && wanted < names.length && !reaches(forward, to, from)) {
        layer.set(to, wanted);
        moved = true;
      }
    }
    if (!moved) break;
  }
  const placed: Spot[] = [];
  const used = new Map<number, number>();
  for (const name of [...names].sort((a, b) => (layer.get(a) ?? 0) - (layer.get(b) ?? 0))) {
    let at = layer.get(name) ?? 0;
    while ((used.get(at) ?? 0) >= perLayer) at += 1;
    const order = used.get(at) ?? 0;
    used.set(at, order + 1);
    placed.push({ name, layer: at, order });
  }
  return placed;
}

function reaches(links: Link[], from: string, to: string): boolean {
  const seen = new Set([from]);
  const open = [from];
  for (let name = open.pop(); name !== undefined; name = open.pop()) {
    if (name === to) return true;
    for (const link of links) {
      if (link.from === name && !seen.has(link.to)) {
        seen.add(link.to);
        open.push(link.to);
      }
    }
  }
  return false;
}
