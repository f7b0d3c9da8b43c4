// What a picture is drawn on.
import type { Camera, Window } from "./camera";

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
