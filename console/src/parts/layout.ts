// Where the nodes of the reuse graph stand: time runs to the right, links pull together.
import { forceCollide, forceLink, forceManyBody, forceSimulation, forceY, type Simulation } from "d3-force";
import type { SessionData } from "../session";
import type { GraphView, OperationView, ReuseView } from "../types";

export interface Node {
  id: string;
  result: number;
  operation: OperationView | null;
  turn: number;
  tool: number;
  name: string;
  label: string;
  radius: number;
  degree: number;
  x: number;
  y: number;
  fx: number;
}

export interface Link {
  source: Node;
  target: Node;
  edge: ReuseView;
}

export interface Layout {
  nodes: Node[];
  links: Link[];
  simulation: Simulation<Node, Link>;
}

const TICKS = 160;
const WIDTH = 1300;

export function layOut(view: GraphView, data: SessionData, tool: string, unused: boolean): Layout {
  const results = data.results.slice(0, view.results.positions.length);
  const operations = new Map(view.operations.map((found) => [found.event, found]));
  const kept = view.edges.filter((edge) => !tool || data.tools[results[edge.result]?.tool] === tool);
  const used = new Set(kept.map((edge) => edge.result));
  const nodes: Node[] = [];
  const byResult = new Map<number, Node>();
  for (const result of results) {
    const name = data.tools[result.tool] ?? "";
    if (!used.has(result.number) && !(unused && (!tool || name === tool))) continue;
    const node: Node = {
      id: `r${result.number}`, result: result.number, operation: null, turn: result.turn, tool: result.tool, name,
      label: `#${result.position} ${name}`, radius: Math.min(14, 4 + Math.sqrt(result.tokens) / 5), degree: 0, x: 0, y: 0, fx: 0,
    };
    nodes.push(node);
    byResult.set(result.number, node);
  }
  const byEvent = new Map<number, Node>();
  const links: Link[] = [];
  for (const edge of kept) {
    const source = byResult.get(edge.result);
    const operation = operations.get(edge.operation);
    if (!source || !operation) continue;
    let target = byEvent.get(edge.operation);
    if (!target) {
      target = {
        id: `o${operation.event}`, result: -1, operation, turn: operation.turn, tool: data.tools.indexOf(operation.name),
        name: operation.name, label: operation.name || "text", radius: 4, degree: 0, x: 0, y: 0, fx: 0,
      };
      byEvent.set(edge.operation, target);
      nodes.push(target);
    }
    source.degree++;
    target.degree++;
    links.push({ source, target, edge });
  }
  place(nodes);
  const simulation = forceSimulation(nodes)
    .force("link", forceLink<Node, Link>(links).distance(10).strength((link) => 0.12 / Math.sqrt(link.source.degree)))
    .force("apart", forceManyBody<Node>().strength(-170).distanceMax(340))
    .force("room", forceCollide<Node>((node) => node.radius + 9))
    .force("centre", forceY(0).strength(0.03))
    .alphaDecay(1 - 0.001 ** (1 / TICKS))
    .stop();
  return { nodes, links, simulation };
}

/** Time runs evenly to the right; results stand a little right of the operations of their turn. */
function place(nodes: Node[]): void {
  const turns = nodes.reduce((most, node) => Math.max(most, node.turn), 1);
  const step = Math.min(60, Math.max(20, WIDTH / turns));
  const seen = new Map<number, number>();
  for (const node of nodes) {
    const index = seen.get(node.turn) ?? 0;
    seen.set(node.turn, index + 1);
    node.fx = node.x = node.turn * step + (node.operation ? 0 : step / 2);
    // The same start every time, so that the same session gives the same picture.
    node.y = (index % 2 ? 1 : -1) * (16 + 30 * Math.ceil(index / 2)) + ((node.turn * 97) % 240) - 120;
  }
}
