/** Places commits in lanes: each stands in one column, and lines lead down to its parents. */

export interface Node {
  id: string;
  parents: string[];
}

export interface Placed {
  id: string;
  row: number;
  lane: number;
  /** Lines to parents; a parent that is not in the list has no row. */
  links: { to: string; row: number | null; lane: number }[];
}

/**
 * `nodes` stand before their parents. The first lane belongs to `firstLane` and its first parents,
 * so that the main branch is a straight line on the left.
 */
export function placeCommits(nodes: Node[], firstLane: string | null): Placed[] {
  const rows = new Map(nodes.map((node, row) => [node.id, row]));
  const byId = new Map(nodes.map((node) => [node.id, node]));
  const trunk = new Set<string>();
  for (let id: string | undefined = firstLane ?? undefined; id !== undefined && byId.has(id); ) {
    trunk.add(id);
    id = byId.get(id)?.parents[0];
  }
  // What each lane waits for: the commit that will stand in it next.
  const lanes: (string | null)[] = [null];
  const laneOf = new Map<string, number>();
  const free = (): number => {
    const found = lanes.findIndex((waits, lane) => waits === null && lane > 0);
    if (found > 0) return found;
    lanes.push(null);
    return lanes.length - 1;
  };
  const reserved = (id: string): number => {
    const known = laneOf.get(id);
    if (known !== undefined) return known;
    const lane = trunk.has(id) ? 0 : free();
    laneOf.set(id, lane);
    lanes[lane] = id;
    return lane;
  };
  return nodes.map((node, row) => {
    const lane = reserved(node.id);
    lanes[lane] = null;
    const links = node.parents.map((parent, index) => {
      const parentRow = rows.get(parent) ?? null;
      if (parentRow === null) return { to: parent, row: null, lane };
      if (index === 0 && !laneOf.has(parent) && !trunk.has(parent)) {
        laneOf.set(parent, lane);
        lanes[lane] = parent;
      }
      return { to: parent, row: parentRow, lane: reserved(parent) };
    });
    if (trunk.has(node.id)) lanes[0] = node.id;
    return { id: node.id, row, lane, links };
  });
}
