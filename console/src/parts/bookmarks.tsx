// The bookmarked turns in a row: go to one, take it away, copy a link that has them.
import { number } from "../format";
import type { Place } from "../route";
import { Copy } from "./copy";
import { Icon } from "./icon";
import { sharedAddress, useMarks } from "./marks";

interface Props {
  place: Place;
  /** The turn that can be bookmarked now. */
  turn: number | null;
  onGo: (turn: number) => void;
}

export function Bookmarks({ place, turn, onGo }: Props) {
  const [marks, toggle] = useMarks(place);
  return (
    <div class="bookmarks" role="group" aria-label="Bookmarks">
      {turn !== null && <Bookmark place={place} turn={turn} />}
      {marks.map((mark) => (
        <span key={mark} class="group">
          <button aria-label={`Go to turn ${mark}`} onClick={() => onGo(mark)}>
            {number(mark)}
          </button>
          <button class="icon" aria-label={`Remove the bookmark of turn ${mark}`} onClick={() => toggle(mark)}>
            <Icon name="close" />
          </button>
        </span>
      ))}
      {marks.length > 0 && <Copy text={sharedAddress(place, marks)} title="Copy a link with the bookmarks" />}
    </div>
  );
}

/** A button that sets a turn's bookmark or takes it away. */
function Bookmark({ place, turn }: { place: Place; turn: number }) {
  const [marks, toggle] = useMarks(place);
  const set = marks.includes(turn);
  return (
    <button class="mark" aria-pressed={set} title="Bookmark (B)" onClick={() => toggle(turn)}>
      <Icon name="mark" /> {set ? `Turn ${number(turn)} is bookmarked` : `Bookmark turn ${number(turn)}`}
    </button>
  );
}
