// A strip that shows the whole grid and marks its visible part. Press or drag to scroll.
import { useLayoutEffect, useRef } from "preact/hooks";
import type { Look } from "./canvas";
import type { Grid } from "./grid";

interface Props {
  grid: Grid;
  look: Look;
  /** The element that scrolls. */
  box: HTMLElement;
  onMove: () => void;
}

export function Minimap({ grid, look, box, onMove }: Props) {
  const canvas = useRef<HTMLCanvasElement>(null);
  useLayoutEffect(() => {
    const draw = () => grid.drawWhole(canvas.current!, look, box);
    const frame = requestAnimationFrame(draw);
    box.addEventListener("scroll", draw);
    return () => {
      cancelAnimationFrame(frame);
      box.removeEventListener("scroll", draw);
    };
  });
  const go = (event: PointerEvent) => {
    if (!event.buttons) return;
    const { left, top, width, height } = canvas.current!.getBoundingClientRect();
    const { gutter, header, extent } = grid;
    box.scrollLeft = ((event.clientX - left) / width) * (extent.width - gutter) - (box.clientWidth - gutter) / 2;
    box.scrollTop = ((event.clientY - top) / height) * (extent.height - header) - (box.clientHeight - header) / 2;
    onMove();
  };
  return <canvas ref={canvas} class="panel minimap" aria-hidden="true" onPointerDown={go} onPointerMove={go} />;
}
