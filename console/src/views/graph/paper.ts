// What a picture is drawn on, and what stands out in it.
import type { Camera, Window } from "./camera";
import type { Bundle, Group, Scene } from "./levels";

export interface Paper {
  ctx: CanvasRenderingContext2D;
  camera: Camera;
  window: Window;
  dark: boolean;
  text: string;
  muted: string;
  panel: string;
  line: string;
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
