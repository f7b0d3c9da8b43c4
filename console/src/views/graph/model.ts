// The reuse graph between results: a call that used a result is represented by its own result. A value that a user or
// system message said before comes from that message.
import { groupBy } from "../../grouping";
import type { GraphView, OperationView, SourceView } from "../../types";

/** The lane of the assistant's texts, which have no tool, and that of the user's and system's messages. */
export const TEXT = -1;
export const SAID = -2;

/** A result, an operation without one (a text, or a call that has no result yet), or a message that said used values. */
export interface Node {
  id: string;
  /** The result's number; -1 for an operation without result. */
  result: number;
  position: number;
  operation: OperationView | null;
  turn: number;
  tool: number;
  name: string;
  label: string;
  tokens: number;
  /** The number of turns that used it. */
  uses: number;
}

/** `target` used `count` values of `source`. `values` has the first of them, `results` the results that have them. */
export interface Link {
  source: Node;
  target: Node;
  count: number;
  values: string[];
  results: number[];
}

export interface Graph {
  nodes: Node[];
  links: Link[];
}

/** The number of a tool, the same in all views. */
type ToolId = (name: string) => number;

/** Values used in more than this share of the turns are common: they do not show where a value came from. In short sessions this number of turns counts. */
const COMMON_SHARE = 0.15;
const COMMON_TURNS = 5;

/** Return the view without the uses that have only common values. */
export function withoutCommon(view: GraphView): GraphView {
  const turnOf = new Map(view.operations.map(({ event, turn }) => [event, turn]));
  const turns = new Map<string, Set<number>>();
  for (const { operation, values } of view.edges)
    for (const value of values) turns.set(value, (turns.get(value) ?? new Set()).add(turnOf.get(operation)!));
  const limit = Math.max(COMMON_TURNS, COMMON_SHARE * view.turn_count);
  const isCommon = (value: string) => turns.get(value)!.size > limit;
  return { ...view, edges: view.edges.filter(({ count, values }) => count > values.length || !values.every(isCommon)) };
}

/** Return the graph, in the order of turns. Each link leads to a later turn. */
export function graphOf(view: GraphView, toolId: ToolId): Graph {
  const nodes = view.calls.map((_, number) => resultNode(view, number, toolId));
  const broughtBy = new Map(view.calls.map((call, number) => [call, nodes[number]]));
  const operations: Node[] = [];
  const byEvent = new Map<number, Node>();
  for (const operation of view.operations) {
    const brought = broughtBy.get(operation.event);
    if (brought) brought.operation = operation;
    else operations.push(operationNode(operation, toolId));
    byEvent.set(operation.event, brought ?? operations[operations.length - 1]);
  }
  const messages = new Map(view.messages.map((message) => [message.position, messageNode(message)]));
  const links = view.edges.flatMap((edge) => linksOf(edge, nodes[edge.result], messages, byEvent.get(edge.operation)!));
  const all = [...nodes, ...operations, ...messages.values()];
  for (const [source, some] of groupBy(links, (link) => link.source)) source.uses = new Set(some.map((link) => link.target.turn)).size;
  return { nodes: all.sort((a, b) => a.turn - b.turn), links: merged(links) };
}

/** Return the links of an edge: one from its result, and one from each message that said some of its values. */
function linksOf({ result, count, values, source_messages: messagesOf }: GraphView["edges"][number], node: Node, messages: Map<number, Node>, target: Node): Link[] {
  const groups = groupBy([...values.keys()], (index) => messagesOf[index]);
  const hidden = count - values.length;
  // Values that no message said come first, so the hidden ones are in the last group.
  return [...groups].map(([position, some], index) => {
    const source = position < 0 ? node : messages.get(position)!;
    const valueCount = some.length + (index === groups.size - 1 ? hidden : 0);
    return { source, target, count: valueCount, values: some.map((number) => values[number]), results: [result] };
  });
}

/** Join the links between the same two nodes. */
const merged = (links: Link[]): Link[] =>
  [...groupBy(links, ({ source, target }) => `${source.id} ${target.id}`).values()].map((some) => ({
    ...some[0],
    count: some.reduce((sum, link) => sum + link.count, 0),
    values: some.flatMap((link) => link.values),
    results: some.flatMap((link) => link.results),
  }));

/** Return the uses, each as its result and its turn: the text and the calls of one answer are one use. */
export const usesOf = (links: Link[]): Set<string> => new Set(links.flatMap(({ results, target }) => results.map((result) => `${result} ${target.turn}`)));

function resultNode({ results }: GraphView, number: number, toolId: ToolId): Node {
  const [name, position] = [results.tools[results.names[number]], results.positions[number]];
  return {
    id: `r${number}`, result: number, position, operation: null, turn: results.turns[number], tool: toolId(name), name,
    label: `#${position} ${name}`, tokens: results.tokens[number], uses: 0,
  };
}

function operationNode(operation: OperationView, toolId: ToolId): Node {
  const { event, position, turn, name } = operation;
  return {
    id: `o${event}`, result: -1, position, operation, turn, tool: name ? toolId(name) : TEXT, name,
    label: name ? `call of ${name}` : `text of turn ${turn}`, tokens: 0, uses: 0,
  };
}

function messageNode({ position, turn, role }: SourceView): Node {
  return {
    id: `m${position}`, result: -1, position, operation: null, turn, tool: SAID, name: role,
    label: `${role} message #${position}`, tokens: 0, uses: 0,
  };
}

/** Return a node's lineage: the nodes that it used, directly or indirectly, and those that used it. Empty for an unknown node. */
export function lineage({ nodes, links }: Graph, id: string): Graph {
  const start = nodes.find((node) => node.id === id);
  const [before, after] = [reached(links, start, "target", "source"), reached(links, start, "source", "target")];
  const within = (link: Link) => [before, after].some((side) => side.has(link.source) && side.has(link.target));
  return { nodes: nodes.filter((node) => before.has(node) || after.has(node)), links: links.filter(within) };
}

type End = "source" | "target";

/** Return a node and all nodes reached from it by following links in one direction. */
function reached(links: Link[], start: Node | undefined, from: End, to: End): Set<Node> {
  const leaving = groupBy(links, (link) => link[from]);
  const reachedNodes = new Set(start && [start]);
  for (const node of reachedNodes) for (const link of leaving.get(node) ?? []) reachedNodes.add(link[to]);
  return reachedNodes;
}

/** Return the used results of one tool, or of all, with the nodes that used them. */
export function filtered({ nodes, links }: Graph, tool: string): Graph {
  const usedLinks = links.filter((link) => !tool || link.source.name === tool);
  const linked = new Set(usedLinks.flatMap((link) => [link.source, link.target]));
  return { nodes: nodes.filter((node) => linked.has(node)), links: usedLinks };
}
