// The canvas with its camera, the pointer and the keys.
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { plural } from "../../format";
import { readLook, useSize } from "../../parts/canvas";
import { Legend, type Sign, Zoom } from "../../parts/legend";
import { isDark } from "../../theme";
import { at, type Camera, centred, moved, radiusOf, spanning, type Window, zoomed } from "./camera";
import { fittedScene, type Group, holder, type Scene, type Scenes, shineOf } from "./levels";
import { paint } from "./paint";
import { usePointers } from "./pointers";

interface Props {
  scenes: Scenes;
  /** Changes when another picture is shown, but not when the session grows. */
  subject: string;
  chosen: string | null;
  value: string | null;
  onChoose: (id: string | null) => void;
  onFocus: (id: string) => void;
  onScene: (scene: Scene) => void;
}

const SIGNS: Sign[] = [
  { kind: "round", name: "result, or several; a colour is a tool" },
  { kind: "square", name: "text that used results, or a message that said a value before" },
];
const REACH = 6;
const PAN = 60;
const PANS: Record<string, [number, number]> = { ArrowLeft: [PAN, 0], ArrowRight: [-PAN, 0], ArrowUp: [0, PAN], ArrowDown: [0, -PAN] };

export function Picture({ scenes, subject, chosen, value, onChoose, onFocus, onScene }: Props) {
  const canvas = useRef<HTMLCanvasElement>(null);
  /** Null while the whole picture is shown. */
  const [camera, setCamera] = useState<Camera | null>(null);
  const size = useSize(canvas);
  const [hover, setHover] = useState<string | null>(null);
  const dark = isDark();
  const colours = useMemo(readLook, [dark]);
  const window: Window = { ...size, left: size.width < 600 ? 84 : 160, top: 24 };
  const fit = useMemo(() => fittedScene(scenes, window), [scenes, ...Object.values(window)]);
  const now = camera ?? fit;
  const scene = scenes.at(now.across);

  useLayoutEffect(() => setCamera(null), [subject]);
  useEffect(() => onScene(scene), [scene]);
  useLayoutEffect(() => {
    if (!size.width) return;
    const frame = requestAnimationFrame(() => {
      paint(canvas.current!, { ...colours, camera: now, window, dark }, scene, shineOf(scene, hover ?? chosen, value));
      canvas.current!.setAttribute("data-drawn", String(scene.groups.length));
    });
    return () => cancelAnimationFrame(frame);
  });

  const look = (next: Camera) => setCamera(moved(next, 0, 0, scenes.at(next.across), window));
  const chosenGroup = chosen === null ? undefined : holder(scene, chosen);
  const middle = chosenGroup ? at(now, chosenGroup)[0] : (size.width + window.left) / 2;
  const zoom = (by: number, x = middle) => look(zoomed(now, by, x, fit));
  const under = (x: number, y: number): Group | null => {
    let [best, least]: [Group | null, number] = [null, REACH];
    for (const group of x > window.left ? scene.groups : []) {
      const [gx, gy] = at(now, group);
      const distance = Math.hypot(gx - x, gy - y) - radiusOf(group, now);
      if (distance < least) [best, least] = [group, distance];
    }
    return best;
  };
  const open = () => {
    if (!chosenGroup) return;
    const { members, x, span } = chosenGroup;
    if (members.length === 1) onFocus(members[0].id);
    else look(spanning(now, x - span / 2, x + span / 2, window));
  };
  const step = (by: number) => {
    const order = [...scene.groups].sort((a, b) => a.x - b.x || a.y - b.y);
    const from = chosenGroup ? order.indexOf(chosenGroup) : -1;
    const next = order.at(from < 0 && by < 0 ? -1 : (from + by) % order.length)!;
    if (camera) look(centred(now, next, window));
    onChoose(next.id);
  };
  const keys = (event: KeyboardEvent) => {
    if (event.key === "+" || event.key === "=") zoom(2);
    else if (event.key === "-") zoom(0.5);
    else if (event.key === "f") setCamera(null);
    else if (event.key === "Escape") onChoose(null);
    else if (event.key === "Enter") open();
    else if (event.key === "n" || event.key === "p") step(event.key === "n" ? 1 : -1);
    else if (PANS[event.key]) setCamera(moved(now, ...PANS[event.key], scene, window));
    else return;
    event.preventDefault();
  };
  const pointers = usePointers(canvas, {
    zoom,
    move: (dx, dy) => setCamera(moved(now, dx, dy, scene, window)),
    over: (x, y) => setHover(under(x, y)?.id ?? null),
    press: (x, y) => onChoose(under(x, y)?.id ?? null),
  });
  return (
    <div class="panel picture">
      <canvas
        ref={canvas}
        tabIndex={0}
        role="application"
        aria-label={`Graph of ${plural(scene.groups.length, "node")}. N and P choose the next and previous, Enter opens a group or a lineage, arrow keys move the view, plus and minus zoom, F fits.`}
        style={{ cursor: hover ? "pointer" : "" }}
        {...pointers}
        onPointerLeave={() => setHover(null)}
        onDblClick={open}
        onKeyDown={keys}
      />
      <div class="row below">
        <Legend signs={SIGNS} />
        <Zoom fitted={camera === null} onZoom={(by) => zoom(2 ** by)} onFit={() => setCamera(null)} />
      </div>
    </div>
  );
}
