// Levels of detail: what would stand too close together is one group, which opens when zoomed into.
import { number, plural } from "../../format";
import { groupBy } from "../../grouping";
import { type Camera, fitted, WIDEST, type Window } from "./camera";
import { filtered, type Graph, lineage, type Link, type Node, TEXT } from "./model";
import { type Places, placed, placedByFile } from "./places";

/** What is drawn as one: a single node, or several. Places are in slots and rows. */
export interface Group {
  id: string;
  x: number;
  y: number;
  /** How many slots it stands for. */
  span: number;
  members: Node[];
  /** The tool of all of them. */
  tool: number;
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
export interface Scene extends Pick<Places, "lanes" | "turns" | "files"> {
  groups: Group[];
  bundles: Bundle[];
  /** In slots, the last group whole, and in rows. */
  width: number;
  height: number;
}

/** What nodes are grouped by where they would stand too close. */
export const GROUPINGS = ["tool and turn", "tool and file"] as const;

export interface Wanted {
  grouping: (typeof GROUPINGS)[number];
  tool: string;
  /** The node whose lineage is wanted alone, or nothing for all. */
  focus: string;
}

export interface Scenes {
  graph: Graph;
  /** The scene where a slot is so many pixels wide, each made once. */
  at: (across: number) => Scene;
}

/** Two groups of a lane stand at least so many pixels apart. */
const ROOM = 24;
const FINEST = 1 / 16;

export function scenesOf(whole: Graph, { grouping, tool, focus }: Wanted): Scenes {
  const graph = focus ? lineage(whole, focus) : filtered(whole, tool);
  const places = grouping === "tool and file" ? placedByFile(graph) : placed(graph, focus !== "");
  const known = new Map<number, Scene>();
  const widest = 2 ** Math.ceil(Math.log2(Math.max(1, places.turns.length)));
  const at = (across: number) => {
    // A power of two, so that a group opens into its halves.
    const width = Math.min(widest, Math.max(FINEST, 2 ** Math.ceil(Math.log2(ROOM / across))));
    const scene = known.get(width) ?? sceneOf(places, width);
    known.set(width, scene);
    return scene;
  };
  return { graph, at };
}

/** All of it in the window. Wider groups may end later: it is fitted anew until they are the same. */
export function fittedScene(scenes: Scenes, window: Window): Camera {
  let scene = scenes.at(WIDEST);
  for (;;) {
    const camera = fitted(scene, window);
    const next = scenes.at(camera.across);
    if (next.width <= scene.width) return camera;
    scene = next;
  }
}

/** Groups of one lane and `width` slots. */
export function sceneOf({ nodes, links, lanes, turns, files, x, row }: Places, width: number): Scene {
  const found = groupBy(nodes, (node) => `${Math.floor(x.get(node)! / width)}.${row.get(node)}`);
  const groups = [...found].map(([key, members]) => groupOf(key, width, members));
  const whole = Math.ceil(turns.length / width) * width;
  return { groups, bundles: bundled(links, groups), width: whole, height: lanes.length, turns, files, lanes };
}

function groupOf(key: string, span: number, members: Node[]): Group {
  const [first] = members;
  const [place, lane] = key.split(".").map(Number);
  const at = { x: (place + 0.5) * span, y: lane + 0.5, span, members, tool: first.tool };
  if (members.length === 1) {
    return { ...at, id: first.id, label: first.label, radius: Math.min(10, 4 + Math.sqrt(first.tokens) / 6) };
  }
  return { ...at, id: `g${span}.${key}`, label: told(members), radius: Math.min(12, 6 + Math.log2(members.length)) };
}

/** A group in words: how many of what, and when. */
function told(members: Node[]): string {
  const results = members.filter((node) => node.result >= 0).length;
  const others = members.length - results;
  const what = [results && plural(results, "result"), others && plural(others, "text")].filter(Boolean).join(", ");
  const [first, last] = [members[0].turn, members[members.length - 1].turn];
  const of = members[0].tool === TEXT ? "" : ` of ${members[0].name || "a tool"}`;
  const files = [...new Set(members.map((node) => node.file).filter(Boolean))];
  const where = files.length > 1 ? `, ${number(files.length)} files` : files.length ? `, ${files[0]}` : "";
  return `${what}${of}${where}, ${first === last ? `turn ${first}` : `turns ${first} to ${last}`}`;
}

function bundled(links: Link[], groups: Group[]): Bundle[] {
  const holder = new Map(groups.flatMap((group) => group.members.map((node) => [node, group] as const)));
  const ends = (link: Link): [Group, Group] => [holder.get(link.source)!, holder.get(link.target)!];
  const found = groupBy(links, (link) => ends(link).map((group) => group.id).join(" "));
  const bundles = [...found.values()].map((some): Bundle => {
    const [source, target] = ends(some[0]);
    return { source, target, links: some, count: some.reduce((sum, link) => sum + link.count, 0) };
  });
  return bundles.filter(({ source, target }) => source !== target);
}

/** What is chosen with all it is linked to, or the way of a value. */
export interface Shine {
  /** The group that is pointed at or chosen, or holds the chosen node. */
  focus: Group | null;
  groups: Set<Group>;
  bundles: Set<Bundle>;
}

export function shineOf(scene: Scene, chosen: string | null, value: string | null): Shine {
  const focus = (chosen !== null && holder(scene, chosen)) || null;
  const on = ({ source, target, links }: Bundle) =>
    value === null ? source === focus || target === focus : links.some((link) => link.values.includes(value));
  const bundles = new Set(scene.bundles.filter(on));
  const groups = new Set([...bundles].flatMap((bundle) => [bundle.source, bundle.target]));
  if (focus) groups.add(focus);
  return { focus, groups, bundles };
}

/** The group of an id, or that which holds the node of that id. */
export const holder = (scene: Scene, id: string): Group | undefined =>
  scene.groups.find((group) => group.id === id || group.members.some((node) => node.id === id));
