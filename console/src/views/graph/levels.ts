// Levels of detail: what would stand too close together is one group, which opens when zoomed into.
import { number, plural } from "../../format";
import { type Graph, type Link, type Node, TEXT } from "./model";
import { busiest, type Lane, OTHERS, type Places } from "./places";

/** What is drawn as one: a single node, or several. Places are in slots and rows. */
export interface Group {
  id: string;
  x: number;
  y: number;
  /** How many slots it stands for; 0 where the picture has no time. */
  span: number;
  members: Node[];
  /** The tool of all of them; null if they are of several. */
  tool: number | null;
  label: string;
  /** In pixels, where there is room. */
  radius: number;
}

/** All links from one group to another. */
export interface Bundle {
  source: Group;
  target: Group;
  links: Link[];
  /** How many values. */
  count: number;
}

/** What is drawn at one level. */
export interface Scene {
  groups: Group[];
  bundles: Bundle[];
  /** In slots, the last group whole, and in rows. */
  width: number;
  height: number;
  /** Which turn a slot is; empty where the picture has no time. */
  turns: number[];
  /** Which file a slot is, where it is one. */
  files: string[];
  /** What rows are, where they are tools. */
  lanes: Lane[];
}

/** Two groups of a lane stand at least so many pixels apart. */
export const ROOM = 24;
const FINEST = 1 / 16;
/** Above a single row, links go over groups. */
const ROWS_OF_ARCS = 4;

/** How many slots are one group: a power of two, so that a group opens into its halves. */
export function widthFor(slotPixels: number, room: number = ROOM): number {
  return Math.max(FINEST, 2 ** Math.ceil(Math.log2(room / slotPixels)));
}

/** Groups of one tool and `width` slots. */
export function byToolAndTurn({ nodes, links, lanes, turns, files, x, row }: Places, width: number): Scene {
  const found = collect(nodes, (node) => `${bin(x.get(node)!, width)}.${row.get(node)}`);
  const groups = [...found].map(([key, members]) => {
    const [at, lane] = key.split(".").map(Number);
    const id = members.length === 1 ? members[0].id : `g${width}.${key}`;
    return group(id, (at + 0.5) * width, lane + 0.5, width, members);
  });
  return { groups, bundles: bundled(links, groups), width: whole(turns.length, width), height: lanes.length, turns, files, lanes };
}

/** Groups of `width` turns, of whatever tool: a single row. */
export function byTurn({ nodes, links, turns, x }: Places, width: number): Scene {
  const found = collect(nodes, (node) => bin(x.get(node)!, width));
  const groups = [...found].map(([at, members]) => group(`t${width}.${at}`, (at + 0.5) * width, ROWS_OF_ARCS + 0.5, width, members));
  return { groups, bundles: bundled(links, groups), width: whole(turns.length, width), height: ROWS_OF_ARCS + 1, turns, files: [], lanes: [] };
}

/** Tools drawn on at the left, those that drew on them at the right, the busiest first; many of little in one. */
export function byTool(graph: Graph): Scene {
  const side = (end: "source" | "target", x: number) => {
    const linked = new Set(graph.links.map((link) => link[end]));
    const nodes = graph.nodes.filter((node) => linked.has(node));
    const kept = busiest(nodes);
    const found = [...collect(nodes, ({ tool }) => (tool === TEXT || kept.has(tool) ? tool : OTHERS))];
    found.sort(([, a], [, b]) => b.length - a.length);
    return found.map(([tool, members], index) => group(`${end}.${tool}`, x, index + 0.5, 0, members));
  };
  const [sources, targets] = [side("source", 0.5), side("target", 1.5)];
  const height = Math.max(sources.length, targets.length);
  for (const some of [sources, targets]) for (const one of some) one.y += (height - some.length) / 2;
  const bundles = bundled(graph.links, sources, targets);
  return { groups: [...sources, ...targets], bundles, width: 2, height, turns: [], files: [], lanes: [] };
}

const whole = (slots: number, width: number): number => Math.ceil(slots / width) * width;

const bin = (x: number, width: number): number => Math.floor(x / width);

function collect<K>(nodes: Node[], keyOf: (node: Node) => K): Map<K, Node[]> {
  const found = new Map<K, Node[]>();
  for (const node of nodes) {
    const key = keyOf(node);
    const some = found.get(key);
    if (some) some.push(node);
    else found.set(key, [node]);
  }
  return found;
}

function group(id: string, x: number, y: number, span: number, members: Node[]): Group {
  const [first] = members;
  const tool = members.every((node) => node.tool === first.tool) ? first.tool : null;
  const single = members.length === 1;
  const radius = single ? Math.min(10, 4 + Math.sqrt(first.tokens) / 6) : Math.min(12, 6 + Math.log2(members.length));
  return { id, x, y, span, members, tool, label: single ? first.label : told(members, tool), radius };
}

/** A group in words: how many of what, and when. */
function told(members: Node[], tool: number | null): string {
  const results = members.filter((node) => node.result >= 0).length;
  const others = members.length - results;
  const what = [results && plural(results, "result"), others && plural(others, "text")].filter(Boolean).join(", ");
  const [first, last] = [members[0].turn, members[members.length - 1].turn];
  const of = tool === null || tool === TEXT ? "" : ` of ${members[0].name || "a tool"}`;
  const files = [...new Set(members.map((node) => node.file).filter(Boolean))];
  const where = files.length > 1 ? `, ${number(files.length)} files` : files.length ? `, ${files[0]}` : "";
  return `${what}${of}${where}, ${first === last ? `turn ${first}` : `turns ${first} to ${last}`}`;
}

function bundled(links: Link[], sources: Group[], targets: Group[] = sources): Bundle[] {
  const [from, to] = [holders(sources), holders(targets)];
  const found = new Map<string, Bundle>();
  for (const link of links) {
    const [source, target] = [from.get(link.source)!, to.get(link.target)!];
    if (source === target) continue;
    const key = `${source.id} ${target.id}`;
    const bundle = found.get(key) ?? { source, target, links: [], count: 0 };
    bundle.links.push(link);
    bundle.count += link.count;
    found.set(key, bundle);
  }
  return [...found.values()];
}

const holders = (groups: Group[]): Map<Node, Group> =>
  new Map(groups.flatMap((one) => one.members.map((node) => [node, one] as const)));
