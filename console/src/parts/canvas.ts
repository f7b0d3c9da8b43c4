// Functions that all pictures on canvases use.
import { useEffect, useState } from "preact/hooks";
import { visibleText } from "../bidi";

/** The steps between the turns that an axis names. */
export const TURN_STEPS = [1, 2, 5, 10, 20, 25, 50, 100, 200, 250, 500, 1000, 2000, 5000];

const COLOURS = ["panel", "text", "muted", "line", "complete", "replaced", "omitted", "used", "missed", "band"] as const;
export type Look = Record<(typeof COLOURS)[number], string>;

/** Return the current colours of the style sheet. */
export function readLook(): Look {
  const probe = document.body.appendChild(document.createElement("i"));
  const read = (name: string) => {
    probe.style.color = `var(--${name})`;
    return getComputedStyle(probe).color;
  };
  const look = Object.fromEntries(COLOURS.map((name) => [name, read(name)])) as Look;
  probe.remove();
  return look;
}

/** Return the size of an element, which is 0 until it is drawn. */
export function useSize(element: { current: Element | null }): { width: number; height: number } {
  const [size, setSize] = useState({ width: 0, height: 0 });
  useEffect(() => {
    const watch = new ResizeObserver(([{ contentRect: { width, height } }]) => setSize({ width, height }));
    watch.observe(element.current!);
    return () => watch.disconnect();
  }, []);
  return size;
}

/** Size the canvas in the screen's pixels and fill it with one colour. */
export function clearedCanvas(canvas: HTMLCanvasElement, background: string): CanvasRenderingContext2D {
  const ratio = devicePixelRatio || 1;
  const [width, height] = [canvas.clientWidth, canvas.clientHeight];
  canvas.width = Math.round(width * ratio);
  canvas.height = Math.round(height * ratio);
  const ctx = canvas.getContext("2d")!;
  ctx.setTransform(ratio, 0, 0, ratio, 0, 0);
  ctx.fillStyle = background;
  ctx.fillRect(0, 0, width, height);
  return ctx;
}

/** Return a name that fits the pixels. Its middle is cut, because the tools of one server begin alike. */
export function fittedName(ctx: CanvasRenderingContext2D, name: string, width: number): string {
  const words = visibleText(name);
  if (ctx.measureText(words).width <= width) return words;
  let remaining = words.length;
  const short = () => `${words.slice(0, Math.floor(remaining / 3))}…${words.slice(words.length - Math.ceil((2 * remaining) / 3))}`;
  while (remaining > 2 && ctx.measureText(short()).width > width) remaining--;
  return short();
}
