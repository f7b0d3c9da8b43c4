// The reuse graph between results: a call that drew on one stands as the result that it brought.
import { groupBy } from "../../grouping";
import type { GraphView, OperationView } from "../../types";

/** The lane of the assistant's texts, which no tool brought. */
export const TEXT = -1;

/** A result, or an operation that brought none: a text, or a call that waits for its result. */
export interface Node {
  id: string;
  /** -1 for what is none. */
  result: number;
  position: number;
  operation: OperationView | null;
  turn: number;
  tool: number;
  name: string;
  label: string;
  /** The file that its call names; empty for none. */
  file: string;
  tokens: number;
  /** The number of turns that used it. */
  uses: number;
}

/** `target` drew on `source`: `count` values, the first of them in `values`. */
export interface Link {
  source: Node;
  target: Node;
  count: number;
  values: string[];
}

export interface Graph {
  nodes: Node[];
  links: Link[];
}

/** The number of a tool, the same wherever it appears. */
type ToolId = (name: string) => number;

/** A value used in more than this share of the turns says little of what came from where; in short sessions, in more turns than this. */
const COMMON_SHARE = 0.15;
const COMMON_TURNS = 5;

/** The view without the uses of nothing but common values. */
export function withoutCommon(view: GraphView): GraphView {
  const turnOf = new Map(view.operations.map(({ event, turn }) => [event, turn]));
  const turns = new Map<string, Set<number>>();
  for (const { operation, values } of view.edges)
    for (const value of values) turns.set(value, (turns.get(value) ?? new Set()).add(turnOf.get(operation)!));
  const most = Math.max(COMMON_TURNS, COMMON_SHARE * view.turn_count);
  const isCommon = (value: string) => turns.get(value)!.size > most;
  return { ...view, edges: view.edges.filter(({ count, values }) => count > values.length || !values.every(isCommon)) };
}

/** All of it, in the order of turns; every link leads to a later turn. */
export function graphOf(view: GraphView, toolId: ToolId): Graph {
  const nodes = view.calls.map((_, number) => resultNode(view, number, toolId));
  const broughtBy = new Map(view.calls.map((call, number) => [call, nodes[number]]));
  const others: Node[] = [];
  const byEvent = new Map<number, Node>();
  for (const operation of view.operations) {
    const brought = broughtBy.get(operation.event);
    if (brought) brought.operation = operation;
    else others.push(operationNode(operation, toolId));
    byEvent.set(operation.event, brought ?? others[others.length - 1]);
  }
  const links = view.edges.map(({ operation, result, count, values }): Link => ({ source: nodes[result], target: byEvent.get(operation)!, count, values }));
  for (const use of usesOf(links)) nodes[Number(use.split(" ")[0])].uses++;
  return { nodes: [...nodes, ...others].sort((a, b) => a.turn - b.turn), links };
}

/** Return the uses, each as its result and its turn: the text and the calls of one answer are one use. */
export const usesOf = (links: Link[]): Set<string> => new Set(links.map(({ source, target }) => `${source.result} ${target.turn}`));

function resultNode({ results, files, file_of }: GraphView, number: number, toolId: ToolId): Node {
  const [name, position] = [results.tools[results.names[number]], results.positions[number]];
  return {
    id: `r${number}`, result: number, position, operation: null, turn: results.turns[number], tool: toolId(name), name,
    label: `#${position} ${name}`, file: files[file_of[number]] ?? "", tokens: results.tokens[number], uses: 0,
  };
}

function operationNode(operation: OperationView, toolId: ToolId): Node {
  const { event, position, turn, name } = operation;
  return {
    id: `o${event}`, result: -1, position, operation, turn, tool: name ? toolId(name) : TEXT, name,
    label: name ? `call of ${name}` : `text of turn ${turn}`, file: "", tokens: 0, uses: 0,
  };
}

/** One node with what it drew on and what that drew on, and the same after it; of an unknown one, nothing. */
export function lineage({ nodes, links }: Graph, id: string): Graph {
  const start = nodes.find((node) => node.id === id);
  const [before, after] = [reached(links, start, "target", "source"), reached(links, start, "source", "target")];
  const within = (link: Link) => [before, after].some((side) => side.has(link.source) && side.has(link.target));
  return { nodes: nodes.filter((node) => before.has(node) || after.has(node)), links: links.filter(within) };
}

type End = "source" | "target";

/** A node, and what is reached from it by following links from one of their ends to the other. */
function reached(links: Link[], start: Node | undefined, from: End, to: End): Set<Node> {
  const leaving = groupBy(links, (link) => link[from]);
  const found = new Set(start && [start]);
  for (const node of found) for (const link of leaving.get(node) ?? []) found.add(link[to]);
  return found;
}

/** What was drawn on of one tool, or of all, with what drew on it. */
export function filtered({ nodes, links }: Graph, tool: string): Graph {
  const kept = links.filter((link) => !tool || link.source.name === tool);
  const linked = new Set(kept.flatMap((link) => [link.source, link.target]));
  return { nodes: nodes.filter((node) => linked.has(node)), links: kept };
}
