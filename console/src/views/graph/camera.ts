// The camera: the visible part of the picture, and its scale.

/** A slot is `across` pixels wide, a row `down` pixels high, and the picture starts at (x, y). */
export interface Camera {
  x: number;
  y: number;
  across: number;
  down: number;
}

/** The size of the canvas in pixels. The picture is right of `left` and below `top`. */
export interface Window {
  width: number;
  height: number;
  left: number;
  top: number;
}

/** The size of the picture, in slots and rows. */
interface Extent {
  width: number;
  height: number;
}

type Point = { x: number; y: number };

/** Limits of the pixels per slot. */
export const WIDEST = 400;
const WIDEST_FITTED = 90;
const TALLEST = 64;
const MARGIN = 14;

/** Return the camera that shows the whole picture. */
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

/** Return the camera zoomed in time around a point, at least as wide as the window. Rows do not change. */
export function zoomed(camera: Camera, by: number, x: number, fit: Camera): Camera {
  const across = clamp(camera.across * by, fit.across, Math.max(WIDEST, fit.across));
  return { ...camera, across, x: x - ((x - camera.x) * across) / camera.across };
}

/** Return the camera moved, with the picture still in the window. */
export function moved(camera: Camera, dx: number, dy: number, extent: Extent, window: Window): Camera {
  return {
    ...camera,
    x: startWithin(camera.x + dx, extent.width * camera.across, window.left + MARGIN, window.width - MARGIN),
    y: startWithin(camera.y + dy, extent.height * camera.down, window.top + MARGIN, window.height - MARGIN),
  };
}

/** Return the camera that shows the slots from `first` to `last`. Rows do not change. */
export function spanning(camera: Camera, first: number, last: number, window: Window): Camera {
  const [width] = room(window);
  const across = Math.min(WIDEST, width / Math.max(0.1, last - first));
  return { ...camera, across, x: window.left + MARGIN + width / 2 - ((first + last) / 2) * across };
}

/** Return the camera with a place of the picture in the middle of the window. */
export function centred(camera: Camera, place: Point, { width, height, left, top }: Window): Camera {
  const [x, y] = [(left + width) / 2 - place.x * camera.across, (top + height) / 2 - place.y * camera.down];
  return { ...camera, x, y };
}

/** Return a place of the picture in pixels of the canvas. */
export const at = (camera: Camera, { x, y }: Point): [number, number] => [
  camera.x + x * camera.across,
  camera.y + y * camera.down,
];

/** Return the radius of a node in pixels, which low rows limit. */
export const radiusOf = (group: { radius: number }, camera: Camera): number => Math.max(2, Math.min(group.radius, camera.down / 2 - 1));

function room(window: Window): [number, number] {
  return [Math.max(1, window.width - window.left - 2 * MARGIN), Math.max(1, window.height - window.top - 2 * MARGIN)];
}

/** Return where something of that size starts so that it fills the room from low to high, or is within it. */
function startWithin(start: number, size: number, low: number, high: number): number {
  return clamp(start, Math.min(low, high - size), Math.max(low, high - size));
}

const clamp = (value: number, minimum: number, maximum: number): number => Math.min(maximum, Math.max(minimum, value));
