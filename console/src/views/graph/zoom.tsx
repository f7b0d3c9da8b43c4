// What stands below the picture.
import { Icon } from "../../parts/icon";

interface Props {
  fitted: boolean;
  onZoom: (by: number) => void;
  onFit: () => void;
}

export function Zoom({ fitted, onZoom, onFit }: Props) {
  return (
    <span class="group" role="group" aria-label="Zoom">
      <button class="icon" aria-label="Zoom out" title="Zoom out (−)" onClick={() => onZoom(0.5)}>
        <Icon name="minus" />
      </button>
      <button class="icon" aria-label="Fit" title="Fit (F)" aria-pressed={fitted} onClick={onFit}>
        <Icon name="fit" />
      </button>
      <button class="icon" aria-label="Zoom in" title="Zoom in (+)" onClick={() => onZoom(2)}>
        <Icon name="plus" />
      </button>
    </span>
  );
}

export function Legend() {
  return (
    <ul class="legend" aria-label="Legend">
      <li>
        <i class="round" /> result, or several; a colour is a tool
      </li>
      <li>
        <i class="square" /> text that used results
      </li>
    </ul>
  );
}
