// The controls and the legend beside a picture: its zoom, and the meaning of its colours.
import { Icon } from "./icon";

interface Props {
  fitted: boolean;
  /** Zoom in by one step, or out if `by` is -1. */
  onZoom: (by: number) => void;
  onFit: () => void;
}

export function Zoom({ fitted, onZoom, onFit }: Props) {
  return (
    <span class="group" role="group" aria-label="Zoom">
      <button class="icon" aria-label="Zoom out" title="Zoom out (−)" onClick={() => onZoom(-1)}>
        <Icon name="minus" />
      </button>
      <button class="icon" aria-label="Fit" title="Fit (F)" aria-pressed={fitted} onClick={onFit}>
        <Icon name="fit" />
      </button>
      <button class="icon" aria-label="Zoom in" title="Zoom in (+)" onClick={() => onZoom(1)}>
        <Icon name="plus" />
      </button>
    </span>
  );
}

export interface Sign {
  name: string;
  /** A class of the style sheet, or the colour of the swatch. */
  kind?: string;
  colour?: string;
}

export function Legend({ signs }: { signs: Sign[] }) {
  return (
    <ul class="legend" aria-label="Legend">
      {signs.map(({ name, kind = "swatch", colour }) => (
        <li key={name}>
          <i class={kind} style={{ background: colour }} /> {name}
        </li>
      ))}
    </ul>
  );
}
