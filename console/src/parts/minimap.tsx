// All of a grid in one strip, with what is in the window marked: press or drag to go there.
import { useLayoutEffect, useRef } from "preact/hooks";
import type { Grid, Look } from "./grid";

interface Props {
  grid: Grid;
  look: Look;
  /** What scrolls. */
  box: HTMLElement;
  onMove: () => void;
}

export function Minimap({ grid, look, box, onMove }: Props) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const draw = () => canvas.current && grid.drawWhole(canvas.current, look, box);
  useLayoutEffect(() => {
    const frame = requestAnimationFrame(draw);
    box.addEventListener("scroll", draw);
    return () => {
      cancelAnimationFrame(frame);
      box.removeEventListener("scroll", draw);
    };
  });
  const go = (event: PointerEvent) => {
    if (!event.buttons) return;
    const around = canvas.current!.getBoundingClientRect();
    const [x, y] = [(event.clientX - around.left) / around.width, (event.clientY - around.top) / around.height];
    box.scrollLeft = x * (grid.extent.width - grid.gutter) - (box.clientWidth - grid.gutter) / 2;
    box.scrollTop = y * grid.extent.height - box.clientHeight / 2;
    onMove();
  };
  return <canvas ref={canvas} class="minimap" aria-hidden="true" onPointerDown={go} onPointerMove={go} />;
}
