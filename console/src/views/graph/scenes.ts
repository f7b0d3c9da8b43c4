// Which scene there is at which zoom, each made once.
import { type Camera, fitted, WIDEST, type Window } from "./camera";
import { byTool, byToolAndTurn, byTurn, type Scene, widthFor } from "./levels";
import { lineage } from "./lineage";
import { filtered, type Graph } from "./model";
import { placed, placedByFile } from "./places";

/** What nodes are grouped by where they would stand too close. */
export const GROUPINGS = ["tool and turn", "tool and file", "tool", "turn"] as const;
export type Grouping = (typeof GROUPINGS)[number];

export interface Wanted {
  grouping: Grouping;
  tool: string;
  unused: boolean;
  /** The node whose lineage is wanted alone, or nothing for all. */
  focus: string;
  steps: number;
}

export interface Scenes {
  graph: Graph;
  /** The scene where a slot is so many pixels wide. */
  at: (across: number) => Scene;
}

/** Groups by turn have their turns written below them. */
const ROOM_OF_TURNS = 48;

export function scenesOf(whole: Graph, { grouping, tool, unused, focus, steps }: Wanted): Scenes {
  const graph = focus ? lineage(whole, focus, steps) : filtered(whole, tool, unused);
  if (grouping === "tool") {
    const scene = byTool(graph);
    return { graph, at: () => scene };
  }
  const places = grouping === "tool and file" ? placedByFile(graph) : placed(graph, focus !== "");
  const known = new Map<number, Scene>();
  const widest = 2 ** Math.ceil(Math.log2(Math.max(1, places.turns.length)));
  const at = (across: number) => {
    const wide = grouping === "turn" ? Math.max(1, widthFor(across, ROOM_OF_TURNS)) : widthFor(across);
    const width = Math.min(widest, wide);
    const scene = known.get(width) ?? (grouping === "turn" ? byTurn : byToolAndTurn)(places, width);
    known.set(width, scene);
    return scene;
  };
  return { graph, at };
}

/** All of it in the window. Wider groups may end later: it is fitted anew until they are the same. */
export function fittedScene(scenes: Scenes, window: Window): Camera {
  let scene = scenes.at(WIDEST);
  if (!scene.turns.length) return fitted(scene, window, Infinity);
  for (;;) {
    const camera = fitted(scene, window);
    const next = scenes.at(camera.across);
    if (next.width <= scene.width) return camera;
    scene = next;
  }
}
