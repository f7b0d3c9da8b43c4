// The places of nodes: a lane for each tool, and time to the right. The same graph always has the same picture.
import { groupBy } from "../../grouping";
import { type Graph, type Link, type Node, SAID, TEXT } from "./model";

interface Lane {
  name: string;
  tool: number;
}

/** Nodes by lane and by slot of time. A slot is a turn, or one of the turns that have nodes. */
export interface Places {
  lanes: Lane[];
  /** The turn of each slot. */
  turns: number[];
  /** The place in slots. Nodes of one turn and lane share a slot. */
  x: Map<Node, number>;
  row: Map<Node, number>;
  nodes: Node[];
  links: Link[];
}

/** Return the places. With `close`, turns without nodes have no slot. */
export function placeByTurn(graph: Graph, close: boolean): Places {
  const { nodes, links } = graph;
  const turns = turnsOf(nodes, close);
  const slot = new Map(turns.map((turn, index) => [turn, index]));
  const x = new Map<Node, number>();
  for (const some of groupBy(nodes, (node) => `${node.turn} ${node.tool}`).values())
    some.forEach((node, index) => x.set(node, slot.get(node.turn)! + (index + 0.5) / some.length));
  return { ...rowsOf(nodes), turns, x, nodes, links };
}

function rowsOf(nodes: Node[]): Pick<Places, "lanes" | "row"> {
  const lanes = lanesOf(nodes);
  const rowOf = new Map(lanes.map((lane, index) => [lane.tool, index]));
  return { lanes, row: new Map(nodes.map((node) => [node, rowOf.get(node.tool)!])) };
}

function turnsOf(nodes: Node[], close: boolean): number[] {
  const turnsWithNodes = [...new Set(nodes.map((node) => node.turn))].sort((a, b) => a - b);
  if (close || !turnsWithNodes.length) return turnsWithNodes;
  return Array.from({ length: turnsWithNodes[turnsWithNodes.length - 1] - turnsWithNodes[0] + 1 }, (_, index) => turnsWithNodes[0] + index);
}

/** Return the messages that said values, the tools in the order of their first use, and texts last. */
function lanesOf(nodes: Node[]): Lane[] {
  const names = new Map(nodes.map((node) => [node.tool, node.name || "tool"]));
  const texts = names.delete(TEXT) ? [{ tool: TEXT, name: "text" }] : [];
  const said = names.delete(SAID) ? [{ tool: SAID, name: "said by the user" }] : [];
  return [...said, ...[...names].map(([tool, name]) => ({ tool, name })), ...texts];
}
