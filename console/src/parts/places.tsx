// Where to go: a turn typed, and links to results.
import { address } from "../route";

interface TurnProps {
  turn: number;
  last: number;
  label?: string;
  onTurn: (turn: number) => void;
}

/** A turn from 1 to `last`; what is no number leaves it as it is. */
export function TurnInput({ turn, last, label, onTurn }: TurnProps) {
  const take = (said: string) => onTurn(Math.min(last, Math.max(1, Math.round(Number(said)) || turn)));
  return <input type="number" min={1} max={last} value={turn} aria-label={label} onChange={(event) => take(event.currentTarget.value)} />;
}

interface ResultProps {
  session: string;
  branch: number | null;
  position: number;
  name?: string;
}

export const ResultLink = ({ session, branch, position, name = "" }: ResultProps) => (
  <a href={address(session, "result", position, branch)}>
    #{position} {name}
  </a>
);
