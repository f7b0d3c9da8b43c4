// The drawing of the picture: links first, then groups, highlighted ones last.
import { clearedCanvas } from "../../parts/canvas";
import { toolColour } from "../../theme";
import { at, radiusOf } from "./camera";
import { labels, type Paper } from "./labels";
import type { Bundle, Group, Scene, Shine } from "./levels";

const MOST_BRIGHT = 400;

export function paint(canvas: HTMLCanvasElement, on: Omit<Paper, "ctx">, scene: Scene, shine: Shine): void {
  const paper = { ...on, ctx: clearedCanvas(canvas, on.panel) };
  stripes(paper, scene);
  const some = shine.groups.size > 0;
  const pale = some ? 0.07 : scene.bundles.length > MOST_BRIGHT ? 0.18 : 0.38;
  for (const bundle of scene.bundles) if (!shine.bundles.has(bundle)) link(paper, bundle, pale, 1);
  for (const bundle of shine.bundles) link(paper, bundle, 0.95, 1.4);
  for (const group of scene.groups) dot(paper, group, some && !shine.groups.has(group), group === shine.focus);
  labels(paper, scene, shine);
}

/** Draw a line along each tool's row. */
function stripes({ ctx, camera, window, line }: Paper, scene: Scene): void {
  ctx.strokeStyle = line;
  ctx.lineWidth = 1;
  ctx.beginPath();
  scene.lanes.forEach((_, row) => {
    const [, y] = at(camera, { x: 0, y: row + 0.5 });
    ctx.moveTo(window.left, y);
    ctx.lineTo(window.width, y);
  });
  ctx.stroke();
}

function link(paper: Paper, { source, target, count }: Bundle, alpha: number, thick: number): void {
  const { ctx, camera, window } = paper;
  const [[x1, y1], [x2, y2]] = [at(camera, source), at(camera, target)];
  if (Math.max(x1, x2) < window.left || Math.min(x1, x2) > window.width) return;
  ctx.strokeStyle = fillOf(paper, source.tool, alpha);
  ctx.lineWidth = Math.min(8, 0.6 + 0.9 * Math.log2(1 + count)) * thick;
  ctx.beginPath();
  ctx.moveTo(x1, y1);
  if (y1 === y2) {
    // A link within one row is an arc over the nodes between its ends.
    const rise = y1 - Math.min(camera.down * 0.9, 8 + Math.abs(x2 - x1) * 0.3);
    ctx.bezierCurveTo(x1, rise, x2, rise, x2, y2);
  } else {
    const bend = Math.min(160, Math.abs(x2 - x1) * 0.45);
    ctx.bezierCurveTo(x1 + bend, y1, x2 - bend, y2, x2, y2);
  }
  ctx.stroke();
}

/** Return a tool's colour; grey for texts and messages. */
function fillOf({ dark }: Paper, tool: number, alpha: number): string {
  if (tool >= 0) return toolColour(tool, dark, alpha);
  return dark ? `hsl(215 15% 70% / ${alpha})` : `hsl(215 15% 40% / ${alpha})`;
}

/** Draw a disc for results or a square for operations without one; a group of several has a number in it. */
function dot(paper: Paper, group: Group, faint: boolean, focus: boolean): void {
  const { ctx, camera, window, text, panel } = paper;
  const [x, y] = at(camera, group);
  const radius = radiusOf(group, camera);
  if (x < window.left - radius || x > window.width + radius || y < -radius || y > window.height + radius) return;
  ctx.globalAlpha = faint ? 0.2 : 1;
  ctx.fillStyle = fillOf(paper, group.tool, 1);
  ctx.beginPath();
  if (group.members.every((node) => node.result < 0)) ctx.rect(x - radius * 0.85, y - radius * 0.85, radius * 1.7, radius * 1.7);
  else ctx.arc(x, y, radius, 0, 7);
  ctx.fill();
  ctx.lineWidth = focus ? 3 : 1.5;
  ctx.strokeStyle = focus ? text : panel;
  ctx.stroke();
  if (group.members.length > 1 && radius >= 7) {
    ctx.fillStyle = panel;
    ctx.font = "600 9px system-ui, sans-serif";
    ctx.textAlign = "center";
    ctx.textBaseline = "middle";
    ctx.fillText(group.members.length > 999 ? "…" : String(group.members.length), x, y + 0.5);
  }
  ctx.globalAlpha = 1;
}
