// The labels in the picture, as many as fit. Chosen nodes are labelled first.
import { fittedName, type Look, TURN_STEPS } from "../../parts/canvas";
import { at, type Camera, radiusOf, type Window } from "./camera";
import type { Bundle, Group, Scene, Shine } from "./levels";

/** The canvas and the scene of a picture. */
export interface Paper extends Look {
  ctx: CanvasRenderingContext2D;
  camera: Camera;
  window: Window;
  dark: boolean;
}

type Box = [left: number, top: number, right: number, bottom: number];
type Put = (words: string, x: number, y: number, fill: string) => void;

const LINE = 13;
/** The minimum height of rows with labels below the nodes. */
const ROOM_FOR_NAMES = 30;
/** The maximum number of links with labels. */
const MOST_VALUES = 40;

export function labels(paper: Paper, scene: Scene, shine: Shine): void {
  const { ctx } = paper;
  ctx.font = "11px system-ui, sans-serif";
  ctx.textBaseline = "middle";
  ctx.textAlign = "center";
  const put = placer(paper);
  const { focus, groups, bundles } = shine;
  if (focus) name(paper, put, focus, true);
  if (bundles.size <= MOST_VALUES) for (const bundle of bundles) value(paper, put, bundle);
  for (const group of groups) if (group !== focus) name(paper, put, group, true);
  if (!groups.size && paper.camera.down >= ROOM_FOR_NAMES) {
    const uses = (group: Group) => group.members.reduce((sum, node) => sum + node.uses, 0);
    for (const group of [...scene.groups].sort((a, b) => uses(b) - uses(a))) name(paper, put, group, false);
  }
  rows(paper, scene);
  axis(paper, scene);
}

/** Draw a label unless it would cover another, on the panel's colour. */
function placer({ ctx, window, panel }: Paper): Put {
  const boxes: Box[] = [];
  return (words, x, y, fill) => {
    const half = ctx.measureText(words).width / 2 + 3;
    const cx = Math.min(Math.max(x, window.left + half), window.width - half);
    const box: Box = [cx - half, y - 7, cx + half, y + 7];
    if (!words || x < window.left || x > window.width || box[1] < window.top || box[3] > window.height) return;
    if (boxes.some((other) => box[0] < other[2] && box[2] > other[0] && box[1] < other[3] && box[3] > other[1])) return;
    boxes.push(box);
    ctx.globalAlpha = 0.85;
    ctx.fillStyle = panel;
    ctx.fillRect(box[0], y - 7, 2 * half, 14);
    ctx.globalAlpha = 1;
    ctx.fillStyle = fill;
    ctx.fillText(words, cx, y);
  };
}

/** Return the label of a group. A single node has only its number, because its row names the tool. */
function name({ camera, text, muted }: Paper, put: Put, group: Group, bright: boolean): void {
  const { members, label } = group;
  const [x, y] = at(camera, group);
  const [first] = members;
  const plain = first.result >= 0 ? label.split(" ")[0] : "";
  const short = bright && plain ? `${plain}, turn ${first.turn}` : bright ? label : plain;
  const several = bright ? label : "";
  put(members.length > 1 ? several : short, x, y + radiusOf(group, camera) + 9, bright ? text : muted);
}

function value({ camera, text }: Paper, put: Put, { source, target, links, count }: Bundle): void {
  const [[x1, y1], [x2, y2]] = [at(camera, source), at(camera, target)];
  const [first = ""] = links[0].values;
  if (Math.hypot(x2 - x1, y2 - y1) < 90) return;
  const rise = y1 === y2 ? camera.down / 2 : 0;
  put(first.slice(0, 28) + (count > 1 ? ` +${count - 1}` : ""), (x1 + x2) / 2, (y1 + y2) / 2 - rise, text);
}

/** Draw the names of the tools beside their rows. */
function rows({ ctx, camera, window, panel, text }: Paper, scene: Scene): void {
  ctx.fillStyle = panel;
  ctx.fillRect(0, 0, window.left, window.height);
  ctx.fillStyle = text;
  ctx.textAlign = "left";
  const skip = Math.max(1, Math.ceil(LINE / camera.down));
  for (let row = 0; row < scene.lanes.length; row += skip) {
    const [, y] = at(camera, { x: 0, y: row + 0.5 });
    if (y > window.top) ctx.fillText(fittedName(ctx, scene.lanes[row].name, window.left - 14), 8, y);
  }
}

/** Draw the turns above the picture. */
function axis({ ctx, camera, window, panel, muted, line }: Paper, { turns }: Scene): void {
  ctx.fillStyle = panel;
  ctx.fillRect(0, 0, window.width, window.top);
  ctx.fillStyle = line;
  ctx.fillRect(0, window.top - 1, window.width, 1);
  ctx.fillStyle = muted;
  ctx.textAlign = "left";
  ctx.fillText("turn", 8, window.top / 2);
  let free = Math.max(window.left, 40) + 8;
  ctx.textAlign = "center";
  const gapless = turns.length === turns[turns.length - 1] - turns[0] + 1;
  const step = TURN_STEPS.find((candidate) => candidate * camera.across >= 36) ?? 5000;
  turns.forEach((turn, slot) => {
    const [x] = at(camera, { x: slot + 0.5, y: 0 });
    if ((gapless && slot && turn % step) || x < free || x > window.width - 10) return;
    ctx.fillText(String(turn), x, window.top / 2);
    free = x + 30;
  });
}
