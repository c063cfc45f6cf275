/** Where the operators of a graph are drawn, and the lines between them. */

import { Graph, layout } from "@dagrejs/dagre";
import type { EdgeRow } from "./model";

export const NODE_WIDTH = 190;
export const NODE_HEIGHT = 46;
const LABEL_WIDTH = 76;
const LABEL_HEIGHT = 16;

export interface Point {
  x: number;
  y: number;
}

export interface NodePlace extends Point {
  index: number;
}

export interface EdgePlace {
  edge: EdgeRow;
  points: readonly Point[];
  label: Point;
}

export interface GraphLayout {
  width: number;
  height: number;
  nodes: readonly NodePlace[];
  edges: readonly EdgePlace[];
}

/** A line that leads back to an earlier operator is laid out as if it led there, so that the order
 * of the operators stays that of the computation. */
export function layoutGraph(operators: number, edges: readonly EdgeRow[]): GraphLayout {
  const graph = new Graph({ multigraph: true });
  graph.setGraph({
    rankdir: "TB",
    nodesep: 28,
    ranksep: 26,
    edgesep: 14,
    marginx: 12,
    marginy: 12,
  });
  graph.setDefaultEdgeLabel(() => ({}));
  for (let index = 0; index < operators; index += 1) {
    graph.setNode(String(index), { width: NODE_WIDTH, height: NODE_HEIGHT });
  }
  const drawn = edges.filter((edge) => edge.from !== edge.to);
  for (const edge of drawn) {
    const [first, last] = edge.isToNextLayer ? [edge.to, edge.from] : [edge.from, edge.to];
    const label = edge.bytes > 0 ? { width: LABEL_WIDTH, height: LABEL_HEIGHT, labelpos: "c" } : {};
    graph.setEdge(String(first), String(last), label, String(edge.index));
  }
  layout(graph);
  const size = graph.graph();
  return {
    width: size.width ?? 0,
    height: size.height ?? 0,
    nodes: Array.from({ length: operators }, (_, index) => {
      const { x, y } = graph.node(String(index));
      return { index, x: x ?? 0, y: y ?? 0 };
    }),
    edges: drawn.map((edge) => {
      const [first, last] = edge.isToNextLayer ? [edge.to, edge.from] : [edge.from, edge.to];
      const placed = graph.edge(String(first), String(last), String(edge.index));
      const points: Point[] = placed.points ?? [];
      const middle = points[Math.floor(points.length / 2)] ?? { x: 0, y: 0 };
      return {
        edge,
        points: edge.isToNextLayer ? [...points].reverse() : points,
        label: { x: placed.x ?? middle.x, y: placed.y ?? middle.y },
      };
    }),
  };
}

/** A smooth line through the points: curves whose ends are the middles between them. */
export function linePath(points: readonly Point[]): string {
  const [first, ...rest] = points;
  const last = rest.at(-1);
  if (!first || !last) {
    return "";
  }
  const curves = rest.slice(0, -1).map((point, index) => {
    const next = rest[index + 1] ?? point;
    const isLast = index === rest.length - 2;
    const end = isLast ? next : { x: (point.x + next.x) / 2, y: (point.y + next.y) / 2 };
    return `Q${coordinates(point)} ${coordinates(end)}`;
  });
  const path = curves.length > 0 ? curves.join(" ") : `L${coordinates(last)}`;
  return `M${coordinates(first)} ${path}`;
}

/** How wide a line is drawn that stands for so many bytes of at most so many. */
export function lineWidth(bytes: number, most: number): number {
  return bytes > 0 && most > 0 ? 1.5 + 6.5 * Math.sqrt(bytes / most) : 1;
}

function coordinates(point: Point): string {
  return `${round(point.x)},${round(point.y)}`;
}

function round(value: number): number {
  return Math.round(value * 10) / 10;
}
