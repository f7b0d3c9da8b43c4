// A field for a turn's number, links to results, and the mark of a result of an old version of a file.
import type { SessionData } from "../session";

interface TurnProps {
  turn: number;
  last: number;
  label?: string;
  onTurn: (turn: number) => void;
}

/** A field for a turn from 1 to `last`. Text that is no number changes nothing. */
export function TurnInput({ turn, last, label, onTurn }: TurnProps) {
  const take = (text: string) => onTurn(Math.min(last, Math.max(1, Math.round(Number(text)) || turn)));
  return <input type="number" min={1} max={last} value={turn} aria-label={label} onChange={(event) => take(event.currentTarget.value)} />;
}

/** A link to a result by its position. Its text is the tool's name, if that is loaded. */
export function ResultLink({ data, position, name }: { data: SessionData; position: number; name?: string }) {
  return (
    <a href={data.to("result", position)}>
      #{position} {name ?? data.tools[data.resultAt(position)?.tool ?? -1]}
    </a>
  );
}

/** Links to results by their numbers. */
export function ResultLinks({ data, numbers }: { data: SessionData; numbers: number[] }) {
  return (
    <>
      {numbers.map((number, index) => (
        <>
          {index > 0 && ", "}
          <ResultLink data={data} position={data.results[number]?.position ?? -1} />
        </>
      ))}
    </>
  );
}

/** The mark of a result whose file was edited since, at the call `editedAt`. */
export function OldVersion({ editedAt }: { editedAt: number }) {
  return (
    <span class="tag warn" title={`The file was edited at call ${editedAt}`}>
      used an old version
    </span>
  );
}
