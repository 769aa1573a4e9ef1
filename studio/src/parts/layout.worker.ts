/** Finds places for nodes, away from the page, so that it stays responsive. */

import {
  forceCollide,
  forceLink,
  forceManyBody,
  forceSimulation,
  forceX,
  forceY,
  type SimulationNodeDatum,
} from "d3-force";

export interface LayoutRequest {
  run: number;
  nodes: { id: string; x: number | null; y: number | null; fixed: boolean }[];
  links: { source: string; target: string }[];
}

export interface LayoutAnswer {
  run: number;
  /** x and y of every node, in their order. */
  places: Float32Array;
  done: boolean;
}

interface Body extends SimulationNodeDatum {
  id: string;
}

const BUDGET_MS = 1_500;
const TICKS_MAX = 300;
const TICKS_AT_ONCE = 10;
/** From here on a layout is coarse at first: exact forces and collisions cost more than all the rest. */
const MANY_NODES = 500;
const COARSE_TICKS = 60;

addEventListener("message", (event: MessageEvent<LayoutRequest>) => {
  const { run, nodes, links } = event.data;
  const bodies: Body[] = nodes.map((node) => ({
    id: node.id,
    ...(node.x === null || node.y === null ? {} : { x: node.x, y: node.y }),
    ...(node.fixed && node.x !== null && node.y !== null ? { fx: node.x, fy: node.y } : {}),
  }));
  const many = nodes.length > MANY_NODES;
  const simulation = forceSimulation(bodies)
    .force("link", forceLink<Body, { source: string; target: string }>(links.map((l) => ({ ...l })))
      .id((node) => node.id).distance(70))
    .force("charge", forceManyBody().strength(many ? -60 : -220).theta(many ? 1.2 : 0.9).distanceMax(600))
    .force("x", forceX().strength(0.03))
    .force("y", forceY().strength(0.03))
    .stop();
  const begun = performance.now();
  for (let ticks = 0; ticks < TICKS_MAX; ticks += TICKS_AT_ONCE) {
    const coarse = many && ticks < COARSE_TICKS && performance.now() - begun < BUDGET_MS / 2;
    if (!coarse && simulation.force("collide") === undefined) simulation.force("collide", forceCollide(14));
    simulation.tick(TICKS_AT_ONCE);
    const late = performance.now() - begun > BUDGET_MS;
    const done = late || ticks + TICKS_AT_ONCE >= TICKS_MAX || simulation.alpha() < 0.01;
    const places = new Float32Array(bodies.length * 2);
    bodies.forEach((body, index) => {
      places[2 * index] = body.x ?? 0;
      places[2 * index + 1] = body.y ?? 0;
    });
    postMessage({ run, places, done } satisfies LayoutAnswer);
    if (done) break;
  }
});
