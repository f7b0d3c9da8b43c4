// One node's lineage: what it drew on and what that drew on, what drew on it and what drew on that.
import type { Graph, Link, Node } from "./model";

type End = "source" | "target";

/** The part of the graph within so many steps before and after a node; of an unknown one, nothing. */
export function lineage(graph: Graph, id: string, steps: number): Graph {
  const start = graph.nodes.find((node) => node.id === id);
  if (!start) return { nodes: [], links: [] };
  const before = reached(graph.links, start, steps, "target", "source");
  const after = reached(graph.links, start, steps, "source", "target");
  const within = (link: Link) => [before, after].some((side) => side.has(link.source) && side.has(link.target));
  return {
    nodes: graph.nodes.filter((node) => before.has(node) || after.has(node)),
    links: graph.links.filter(within),
  };
}

/** What is reached from a node by following links from one of their ends to the other. */
function reached(links: Link[], start: Node, steps: number, from: End, to: End): Set<Node> {
  const leaving = new Map<Node, Node[]>();
  for (const link of links) {
    const some = leaving.get(link[from]);
    if (some) some.push(link[to]);
    else leaving.set(link[from], [link[to]]);
  }
  const found = new Set([start]);
  let edge = [start];
  for (let step = 0; step < steps && edge.length; step++) {
    edge = [...new Set(edge.flatMap((node) => leaving.get(node) ?? []))].filter((node) => !found.has(node));
    for (const node of edge) found.add(node);
  }
  return found;
}
