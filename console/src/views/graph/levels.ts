// Levels of detail: nodes that would be too close together are one group, which divides when zoomed in.
import { plural } from "../../format";
import { groupBy } from "../../grouping";
import { type Camera, fitted, WIDEST, type Window } from "./camera";
import { filtered, type Graph, lineage, type Link, type Node } from "./model";
import { type Places, placeByTurn } from "./places";

/** One node, or several that are drawn as one. Places are in slots and rows. */
export interface Group {
  id: string;
  x: number;
  y: number;
  /** The number of slots that the group covers. */
  span: number;
  members: Node[];
  /** The tool of all its nodes. */
  tool: number;
  label: string;
  /** The radius in pixels, if the row is high enough. */
  radius: number;
}

/** The links from one group to another. */
export interface Bundle {
  source: Group;
  target: Group;
  links: Link[];
  /** The number of values. */
  count: number;
}

/** The groups and links of one level. */
export interface Scene extends Pick<Places, "lanes" | "turns"> {
  groups: Group[];
  bundles: Bundle[];
  /** The size in slots, including the whole last group, and in rows. */
  width: number;
  height: number;
}

export interface Wanted {
  tool: string;
  /** The node whose lineage alone is shown; empty for all nodes. */
  focus: string;
}

export interface Scenes {
  graph: Graph;
  /** Return the scene for a number of pixels per slot. Scenes are cached. */
  at: (across: number) => Scene;
}

/** The minimum distance in pixels between two groups of a lane. */
const ROOM = 24;
const FINEST = 1 / 16;

export function scenesOf(fullGraph: Graph, { tool, focus }: Wanted): Scenes {
  const graph = focus ? lineage(fullGraph, focus) : filtered(fullGraph, tool);
  const places = placeByTurn(graph, focus !== "");
  const cachedScenes = new Map<number, Scene>();
  const widest = 2 ** Math.ceil(Math.log2(Math.max(1, places.turns.length)));
  const at = (across: number) => {
    // A power of two, so that a group opens into its halves.
    const width = Math.min(widest, Math.max(FINEST, 2 ** Math.ceil(Math.log2(ROOM / across))));
    const scene = cachedScenes.get(width) ?? sceneOf(places, width);
    cachedScenes.set(width, scene);
    return scene;
  };
  return { graph, at };
}

/** Return the camera that shows the whole scene. Wider groups make the scene longer, so this repeats until it fits. */
export function fittedScene(scenes: Scenes, window: Window): Camera {
  let scene = scenes.at(WIDEST);
  for (;;) {
    const camera = fitted(scene, window);
    const next = scenes.at(camera.across);
    if (next.width <= scene.width) return camera;
    scene = next;
  }
}

/** Return the groups of nodes of one lane within `width` slots. */
export function sceneOf({ nodes, links, lanes, turns, x, row }: Places, width: number): Scene {
  const groupsByPlace = groupBy(nodes, (node) => `${Math.floor(x.get(node)! / width)}.${row.get(node)}`);
  const groups = [...groupsByPlace].map(([key, members]) => groupOf(key, width, members));
  const slots = Math.ceil(turns.length / width) * width;
  return { groups, bundles: bundled(links, groups), width: slots, height: lanes.length, turns, lanes };
}

function groupOf(key: string, span: number, members: Node[]): Group {
  const [first] = members;
  const [place, lane] = key.split(".").map(Number);
  const at = { x: (place + 0.5) * span, y: lane + 0.5, span, members, tool: first.tool };
  if (members.length === 1) {
    return { ...at, id: first.id, label: first.label, radius: Math.min(10, 4 + Math.sqrt(first.tokens) / 6) };
  }
  return { ...at, id: `g${span}.${key}`, label: describeMembers(members), radius: Math.min(12, 6 + Math.log2(members.length)) };
}

/** Return a group in words: the number of its results, their tool and their turns. */
function describeMembers(members: Node[]): string {
  const results = members.filter((node) => node.result >= 0).length;
  const texts = members.length - results;
  const contents = [results && plural(results, "result"), texts && plural(texts, "text")].filter(Boolean).join(", ");
  const [first, last] = [members[0].turn, members[members.length - 1].turn];
  const of = members[0].tool < 0 ? "" : ` of ${members[0].name || "a tool"}`;
  return `${contents}${of}, ${first === last ? `turn ${first}` : `turns ${first} to ${last}`}`;
}

function bundled(links: Link[], groups: Group[]): Bundle[] {
  const holder = new Map(groups.flatMap((group) => group.members.map((node) => [node, group] as const)));
  const ends = (link: Link): [Group, Group] => [holder.get(link.source)!, holder.get(link.target)!];
  const linksByEnds = groupBy(links, (link) => ends(link).map((group) => group.id).join(" "));
  const bundles = [...linksByEnds.values()].map((some): Bundle => {
    const [source, target] = ends(some[0]);
    return { source, target, links: some, count: some.reduce((sum, link) => sum + link.count, 0) };
  });
  return bundles.filter(({ source, target }) => source !== target);
}

/** The highlighted part: the chosen node with its links, or the links of a value. */
export interface Shine {
  /** The group under the pointer, or the group with the chosen node. */
  focus: Group | null;
  groups: Set<Group>;
  bundles: Set<Bundle>;
}

export function shineOf(scene: Scene, chosenId: string | null, value: string | null): Shine {
  const focus = (chosenId !== null && holder(scene, chosenId)) || null;
  const on = ({ source, target, links }: Bundle) =>
    value === null ? source === focus || target === focus : links.some((link) => link.values.includes(value));
  const bundles = new Set(scene.bundles.filter(on));
  const groups = new Set([...bundles].flatMap((bundle) => [bundle.source, bundle.target]));
  if (focus) groups.add(focus);
  return { focus, groups, bundles };
}

/** Return the group of an id, or the group with the node of that id. */
export const holder = (scene: Scene, id: string): Group | undefined =>
  scene.groups.find((group) => group.id === id || group.members.some((node) => node.id === id));
