// What stands beside a picture: how large it is, and what its colours mean.
import { Icon } from "./icon";

interface Props {
  fitted: boolean;
  /** One step in, or out where `by` is -1. */
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
  /** A class, else a swatch of this colour. */
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
