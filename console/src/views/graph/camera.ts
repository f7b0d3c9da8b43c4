// What of the picture is in the window, and how large.

/** A slot is `across` pixels wide, a row `down` pixels high, and the picture starts at (x, y). */
export interface Camera {
  x: number;
  y: number;
  across: number;
  down: number;
}

/** The canvas, in pixels; the picture keeps right of `left` and below `top`. */
export interface Window {
  width: number;
  height: number;
  left: number;
  top: number;
}

/** In slots and rows. */
interface Extent {
  width: number;
  height: number;
}

type Point = { x: number; y: number };

/** Pixels a slot. */
export const WIDEST = 400;
const WIDEST_FITTED = 90;
const TALLEST = 64;
const MARGIN = 14;

/** All of it in the window, however much it is. */
export function fitted(extent: Extent, window: Window): Camera {
  const [width, height] = room(window);
  const across = Math.min(WIDEST_FITTED, width / Math.max(1, extent.width));
  const down = Math.min(TALLEST, height / Math.max(1, extent.height));
  return {
    across,
    down,
    x: window.left + MARGIN + (width - extent.width * across) / 2,
    y: window.top + MARGIN + (height - extent.height * down) / 2,
  };
}

/** Time longer or shorter around a point, but never shorter than fitted; rows stay as they are. */
export function zoomed(camera: Camera, by: number, x: number, fit: Camera): Camera {
  const across = clamp(camera.across * by, fit.across, Math.max(WIDEST, fit.across));
  return { ...camera, across, x: x - ((x - camera.x) * across) / camera.across };
}

/** Moved, but not so far that the picture leaves the window. */
export function moved(camera: Camera, dx: number, dy: number, extent: Extent, window: Window): Camera {
  return {
    ...camera,
    x: startWithin(camera.x + dx, extent.width * camera.across, window.left + MARGIN, window.width - MARGIN),
    y: startWithin(camera.y + dy, extent.height * camera.down, window.top + MARGIN, window.height - MARGIN),
  };
}

/** The slots from `first` to `last` fill the window; rows stay as they are. */
export function spanning(camera: Camera, first: number, last: number, window: Window): Camera {
  const [width] = room(window);
  const across = Math.min(WIDEST, width / Math.max(0.1, last - first));
  return { ...camera, across, x: window.left + MARGIN + width / 2 - ((first + last) / 2) * across };
}

/** A place of the picture in the middle of the window. */
export function centred(camera: Camera, place: Point, { width, height, left, top }: Window): Camera {
  const [x, y] = [(left + width) / 2 - place.x * camera.across, (top + height) / 2 - place.y * camera.down];
  return { ...camera, x, y };
}

/** A place of the picture in pixels of the canvas. */
export const at = (camera: Camera, { x, y }: Point): [number, number] => [
  camera.x + x * camera.across,
  camera.y + y * camera.down,
];

/** In pixels: rows that are low leave no room for large ones. */
export const radiusOf = (group: { radius: number }, camera: Camera): number => Math.max(2, Math.min(group.radius, camera.down / 2 - 1));

function room(window: Window): [number, number] {
  return [Math.max(1, window.width - window.left - 2 * MARGIN), Math.max(1, window.height - window.top - 2 * MARGIN)];
}

/** Return where something of that size starts so that it fills the room from low to high, or is within it. */
function startWithin(start: number, size: number, low: number, high: number): number {
  return clamp(start, Math.min(low, high - size), Math.max(low, high - size));
}

const clamp = (value: number, least: number, most: number): number => Math.min(most, Math.max(least, value));
