// Touch and mouse on the picture: drag to move, pinch or wheel to zoom.
import { useEffect, useRef } from "preact/hooks";

interface Hands {
  zoom: (by: number, x: number) => void;
  move: (dx: number, dy: number) => void;
  /** The pointer moved over this point, without a button. */
  over: (x: number, y: number) => void;
  /** A click or tap at this point. */
  press: (x: number, y: number) => void;
}

/** A movement of more pixels than this between press and release is a drag. */
const STILL = 4;

export function usePointers(canvas: { current: HTMLCanvasElement | null }, hands: Hands) {
  const pointers = useRef(new Map<number, { x: number; y: number }>());
  const dragged = useRef(0);
  const latest = useRef(hands);
  latest.current = hands;
  // Passive listeners could not keep the page from scrolling.
  useEffect(() => {
    const wheel = (event: WheelEvent) => {
      event.preventDefault();
      latest.current.zoom(Math.exp(-event.deltaY * (event.deltaMode ? 0.05 : 0.0015)), event.offsetX);
    };
    const view = canvas.current!;
    view.addEventListener("wheel", wheel, { passive: false });
    return () => view.removeEventListener("wheel", wheel);
  }, []);
  const place = (event: MouseEvent) => {
    const box = canvas.current!.getBoundingClientRect();
    return { x: event.clientX - box.left, y: event.clientY - box.top };
  };
  const down = (event: PointerEvent) => {
    canvas.current!.setPointerCapture(event.pointerId);
    if (!pointers.current.size) dragged.current = 0;
    pointers.current.set(event.pointerId, place(event));
  };
  const move = (event: PointerEvent) => {
    const [now, before] = [place(event), pointers.current.get(event.pointerId)];
    if (!before) return hands.over(now.x, now.y);
    const other = [...pointers.current].find(([id]) => id !== event.pointerId)?.[1];
    dragged.current += Math.hypot(now.x - before.x, now.y - before.y);
    if (other) {
      const was = Math.hypot(before.x - other.x, before.y - other.y) || 1;
      hands.zoom(Math.hypot(now.x - other.x, now.y - other.y) / was, other.x);
    } else hands.move(now.x - before.x, now.y - before.y);
    pointers.current.set(event.pointerId, now);
  };
  const up = (event: PointerEvent) => void pointers.current.delete(event.pointerId);
  const click = (event: MouseEvent) => {
    const { x, y } = place(event);
    if (dragged.current <= STILL) hands.press(x, y);
  };
  return { onPointerDown: down, onPointerMove: move, onPointerUp: up, onPointerCancel: up, onClick: click };
}
