/** Nodes and edges drawn on a canvas; types differ by shape as well as by colour. */

import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import type { LayoutAnswer, LayoutRequest } from "./layout.worker";
import { startLayout } from "./worker";

export type Mark = "insert" | "update" | "delete" | null;

export interface DrawnNode {
  key: string;
  type: string;
  label: string;
  mark?: Mark;
}

export interface DrawnEdge {
  key: string;
  from: string;
  to: string;
  label: string;
  mark?: Mark;
}

/** Where nodes stand, by key: what was placed once stays there. */
export type Places = Map<string, { x: number; y: number }>;

interface Props {
  nodes: DrawnNode[];
  edges: DrawnEdge[];
  types: string[];
  places: Places;
  selected: string | null;
  label: string;
  onSelect: (key: string) => void;
  onExpand?: (key: string) => void;
}

interface Eye {
  x: number;
  y: number;
  zoom: number;
}

const RADIUS = 9;
const LABELS_MAX = 250;
const EDGE_LABELS_MAX = 60;

export function Picture(props: Props) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const eye = useRef<Eye>({ x: 0, y: 0, zoom: 1 });
  const touched = useRef(false);
  const wish = useRef(0);
  const newest = useRef(props);
  newest.current = props;
  const [busy, setBusy] = useState(false);

  const redraw = (): void => {
    if (wish.current !== 0) return;
    wish.current = requestAnimationFrame(() => {
      wish.current = 0;
      if (canvas.current === null) return;
      paint(canvas.current, newest.current, eye.current);
      // For those who measure: how many nodes have been drawn where they belong.
      const { nodes, places } = newest.current;
      canvas.current.dataset["drawn"] = String(nodes.filter((node) => places.has(node.key)).length);
    });
  };

  const names = props.nodes.map((node) => node.key).join("\n");
  const links = props.edges.length;
  useEffect(() => {
    const { nodes, edges, places } = newest.current;
    if (nodes.length === 0) return undefined;
    if (nodes.every((node) => places.has(node.key))) {
      fit(canvas.current, newest.current, eye.current, touched.current);
      redraw();
      return undefined;
    }
    const worker = startLayout();
    setBusy(true);
    worker.addEventListener("message", (event: MessageEvent<LayoutAnswer>) => {
      nodes.forEach((node, index) => {
        places.set(node.key, {
          x: event.data.places[2 * index] ?? 0,
          y: event.data.places[2 * index + 1] ?? 0,
        });
      });
      fit(canvas.current, newest.current, eye.current, touched.current);
      redraw();
      if (event.data.done) {
        worker.terminate();
        setBusy(false);
      }
    });
    worker.postMessage(layoutOf(nodes, edges, places));
    return () => worker.terminate();
  }, [names, links]);

  useEffect(redraw);

  useEffect(() => {
    const element = canvas.current;
    if (element === null) return undefined;
    const watcher = new ResizeObserver(() => {
      fit(element, newest.current, eye.current, touched.current);
      redraw();
    });
    watcher.observe(element);
    const scheme = matchMedia("(prefers-color-scheme: dark)");
    scheme.addEventListener("change", redraw);
    const undo = listen(element, newest, eye.current, touched, redraw);
    return () => {
      watcher.disconnect();
      scheme.removeEventListener("change", redraw);
      undo();
      cancelAnimationFrame(wish.current);
    };
  }, []);

  const shown = useMemo(() => legend(props.nodes, props.types), [names, props.types]);
  return (
    <div class="picture">
      <canvas
        ref={canvas}
        role="img"
        aria-label={`${props.label}: ${props.nodes.length} nodes, ${props.edges.length} edges`}
        data-settled={busy ? "no" : "yes"}
      />
      <div class="legend">
        {shown.map(({ type, count }) => (
          <span>
            <i class={`dot kind${kindOf(type, props.types)}`} aria-hidden="true" /> {type} ({count})
          </span>
        ))}
        <button
          class="small"
          onClick={() => {
            touched.current = false;
            fit(canvas.current, newest.current, eye.current, false);
            redraw();
          }}
        >
          Fit
        </button>
      </div>
    </div>
  );
}

function legend(nodes: DrawnNode[], types: string[]): { type: string; count: number }[] {
  return types
    .map((type) => ({ type, count: nodes.filter((node) => node.type === type).length }))
    .filter((item) => item.count > 0);
}

export function kindOf(type: string, types: string[]): number {
  return Math.max(0, types.indexOf(type)) % 8;
}

function layoutOf(nodes: DrawnNode[], edges: DrawnEdge[], places: Places): LayoutRequest {
  const known = new Set(nodes.map((node) => node.key));
  const old = nodes.some((node) => places.has(node.key));
  const beside = new Map<string, { x: number; y: number }>();
  for (const edge of edges) {
    for (const [here, there] of [[edge.from, edge.to], [edge.to, edge.from]] as const) {
      const place = places.get(here);
      if (place !== undefined && !places.has(there)) beside.set(there, place);
    }
  }
  return {
    run: 0,
    nodes: nodes.map((node, index) => {
      const place = places.get(node.key);
      if (place !== undefined) return { id: node.key, x: place.x, y: place.y, fixed: old };
      const near = beside.get(node.key);
      const angle = index * 2.4;
      return near === undefined
        ? { id: node.key, x: null, y: null, fixed: false }
        : { id: node.key, x: near.x + 40 * Math.cos(angle), y: near.y + 40 * Math.sin(angle), fixed: false };
    }),
    links: edges
      .filter((edge) => known.has(edge.from) && known.has(edge.to))
      .map((edge) => ({ source: edge.from, target: edge.to })),
  };
}

function fit(canvas: HTMLCanvasElement | null, props: Props, eye: Eye, touched: boolean): void {
  if (canvas === null || touched) return;
  const found = props.nodes.flatMap((node) => props.places.get(node.key) ?? []);
  if (found.length === 0) return;
  const xs = found.map((place) => place.x);
  const ys = found.map((place) => place.y);
  const [left, right] = [min(xs), max(xs)];
  const [top, bottom] = [min(ys), max(ys)];
  const room = 60;
  eye.zoom = Math.min(
    1.6,
    (canvas.clientWidth - room) / Math.max(right - left, 1),
    (canvas.clientHeight - room) / Math.max(bottom - top, 1),
  );
  eye.zoom = Math.max(eye.zoom, 0.02);
  eye.x = (left + right) / 2;
  eye.y = (top + bottom) / 2;
}

const min = (values: number[]): number => values.reduce((a, b) => Math.min(a, b), Infinity);
const max = (values: number[]): number => values.reduce((a, b) => Math.max(a, b), -Infinity);

/** Drag moves, the wheel zooms, a click selects, a double click expands. */
function listen(
  canvas: HTMLCanvasElement,
  props: { current: Props },
  eye: Eye,
  touched: { current: boolean },
  redraw: () => void,
): () => void {
  let held: { x: number; y: number; moved: boolean; node: string | null } | null = null;
  const stop = new AbortController();
  const on = <K extends keyof HTMLElementEventMap>(
    name: K,
    handle: (event: HTMLElementEventMap[K]) => void,
  ): void => canvas.addEventListener(name, handle, { signal: stop.signal });
  on("pointerdown", (event) => {
    const node = nodeAt(canvas, props.current, eye, event.offsetX, event.offsetY);
    held = { x: event.offsetX, y: event.offsetY, moved: false, node };
    canvas.setPointerCapture(event.pointerId);
  });
  on("pointermove", (event) => {
    if (held === null) return;
    const [dx, dy] = [event.offsetX - held.x, event.offsetY - held.y];
    if (!held.moved && Math.abs(dx) + Math.abs(dy) < 4) return;
    const place = held.node === null ? undefined : props.current.places.get(held.node);
    if (place === undefined) {
      eye.x -= dx / eye.zoom;
      eye.y -= dy / eye.zoom;
      touched.current = true;
    } else {
      place.x += dx / eye.zoom;
      place.y += dy / eye.zoom;
    }
    held = { ...held, x: event.offsetX, y: event.offsetY, moved: true };
    redraw();
  });
  on("pointerup", () => {
    if (held !== null && !held.moved && held.node !== null) props.current.onSelect(held.node);
    held = null;
  });
  on("dblclick", (event) => {
    const node = nodeAt(canvas, props.current, eye, event.offsetX, event.offsetY);
    if (node !== null) props.current.onExpand?.(node);
  });
  on("wheel", (event) => {
    event.preventDefault();
    const grow = Math.exp(-event.deltaY / 400);
    const [dx, dy] = [event.offsetX - canvas.clientWidth / 2, event.offsetY - canvas.clientHeight / 2];
    const zoom = Math.min(8, Math.max(0.02, eye.zoom * grow));
    eye.x += dx / eye.zoom - dx / zoom;
    eye.y += dy / eye.zoom - dy / zoom;
    eye.zoom = zoom;
    touched.current = true;
    redraw();
  });
  return () => stop.abort();
}

function nodeAt(canvas: HTMLCanvasElement, props: Props, eye: Eye, x: number, y: number): string | null {
  const at = {
    x: (x - canvas.clientWidth / 2) / eye.zoom + eye.x,
    y: (y - canvas.clientHeight / 2) / eye.zoom + eye.y,
  };
  const reach = Math.max(RADIUS + 3, 8 / eye.zoom);
  for (let index = props.nodes.length - 1; index >= 0; index -= 1) {
    const key = props.nodes[index]?.key ?? "";
    const place = props.places.get(key);
    if (place && Math.hypot(place.x - at.x, place.y - at.y) <= reach) return key;
  }
  return null;
}

function paint(canvas: HTMLCanvasElement, props: Props, eye: Eye): void {
  const scale = devicePixelRatio || 1;
  const [width, height] = [canvas.clientWidth, canvas.clientHeight];
  if (canvas.width !== width * scale || canvas.height !== height * scale) {
    canvas.width = width * scale;
    canvas.height = height * scale;
  }
  const pen = canvas.getContext("2d");
  if (pen === null) return;
  const style = getComputedStyle(canvas);
  const ink = (name: string): string => style.getPropertyValue(name).trim();
  pen.setTransform(scale, 0, 0, scale, 0, 0);
  pen.clearRect(0, 0, width, height);
  pen.setTransform(
    scale * eye.zoom, 0, 0, scale * eye.zoom,
    scale * (width / 2 - eye.x * eye.zoom), scale * (height / 2 - eye.y * eye.zoom),
  );
  const markInk = { insert: ink("--added"), update: ink("--changed"), delete: ink("--removed") };
  paintEdges(pen, props, eye, ink("--edge"), ink("--muted"), markInk);
  const named = props.nodes.length <= LABELS_MAX || eye.zoom > 1.2;
  pen.textAlign = "center";
  pen.font = `${12 / Math.min(eye.zoom, 1.2)}px system-ui, sans-serif`;
  for (const node of props.nodes) {
    const place = props.places.get(node.key);
    if (place === undefined) continue;
    const kind = kindOf(node.type, props.types);
    shape(pen, kind, place.x, place.y, RADIUS);
    pen.fillStyle = ink(`--kind${kind}`);
    pen.fill();
    if (node.mark) {
      pen.lineWidth = 3;
      pen.strokeStyle = markInk[node.mark];
      pen.setLineDash(node.mark === "delete" ? [4, 3] : []);
      shape(pen, kind, place.x, place.y, RADIUS + 4);
      pen.stroke();
      pen.setLineDash([]);
    }
    if (node.key === props.selected) {
      pen.lineWidth = 3;
      pen.strokeStyle = ink("--accent");
      shape(pen, kind, place.x, place.y, RADIUS + 7);
      pen.stroke();
    }
    if (named && eye.zoom > 0.25) {
      pen.fillStyle = ink("--text");
      const sign = node.mark === "insert" ? "+ " : node.mark === "delete" ? "− " : node.mark === "update" ? "~ " : "";
      pen.fillText(sign + cut(node.label), place.x, place.y + RADIUS + 14 / Math.min(eye.zoom, 1.2));
    }
  }
}

const cut = (text: string): string => (text.length > 28 ? `${text.slice(0, 27)}…` : text);

function paintEdges(
  pen: CanvasRenderingContext2D,
  props: Props,
  eye: Eye,
  edgeInk: string,
  textInk: string,
  markInk: Record<"insert" | "update" | "delete", string>,
): void {
  const withText = props.edges.length <= EDGE_LABELS_MAX && eye.zoom > 0.5;
  const arrows = props.edges.length <= 2_000;
  pen.textAlign = "center";
  pen.font = `${10 / Math.min(eye.zoom, 1.2)}px system-ui, sans-serif`;
  for (const edge of props.edges) {
    const [a, b] = [props.places.get(edge.from), props.places.get(edge.to)];
    if (a === undefined || b === undefined) continue;
    pen.strokeStyle = edge.mark ? markInk[edge.mark] : edgeInk;
    pen.fillStyle = pen.strokeStyle;
    pen.lineWidth = edge.mark ? 2.5 : 1.2;
    pen.setLineDash(edge.mark === "delete" ? [5, 4] : []);
    pen.beginPath();
    if (a === b) pen.arc(a.x + RADIUS, a.y - RADIUS, RADIUS, 0, 2 * Math.PI);
    else {
      pen.moveTo(a.x, a.y);
      pen.lineTo(b.x, b.y);
    }
    pen.stroke();
    pen.setLineDash([]);
    if (arrows && a !== b) {
      const angle = Math.atan2(b.y - a.y, b.x - a.x);
      const [x, y] = [b.x - Math.cos(angle) * (RADIUS + 2), b.y - Math.sin(angle) * (RADIUS + 2)];
      pen.beginPath();
      pen.moveTo(x, y);
      pen.lineTo(x - 8 * Math.cos(angle - 0.4), y - 8 * Math.sin(angle - 0.4));
      pen.lineTo(x - 8 * Math.cos(angle + 0.4), y - 8 * Math.sin(angle + 0.4));
      pen.fill();
    }
    if (withText) {
      pen.fillStyle = textInk;
      pen.fillText(edge.label, (a.x + b.x) / 2, (a.y + b.y) / 2 - 3);
    }
  }
}

function shape(pen: CanvasRenderingContext2D, kind: number, x: number, y: number, r: number): void {
  pen.beginPath();
  if (kind % 4 === 0) {
    pen.arc(x, y, r, 0, 2 * Math.PI);
    return;
  }
  if (kind % 4 === 1) {
    pen.rect(x - r * 0.9, y - r * 0.9, r * 1.8, r * 1.8);
    return;
  }
  const corners = kind % 4 === 2 ? 4 : 3;
  for (let corner = 0; corner < corners; corner += 1) {
    const angle = (corner * 2 * Math.PI) / corners - Math.PI / 2;
    const [px, py] = [x + Math.cos(angle) * r * 1.25, y + Math.sin(angle) * r * 1.25];
    if (corner === 0) pen.moveTo(px, py);
    else pen.lineTo(px, py);
  }
  pen.closePath();
}
