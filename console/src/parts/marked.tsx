// A text with the values that were used marked in it.
import { useMemo } from "preact/hooks";

interface Props {
  text: string;
  values: string[];
  /** An additional class. */
  kind?: (value: string) => string;
  chosen?: string | null;
  onValue?: (value: string) => void;
}

export function Marked({ text, values, kind: more, chosen, onValue }: Props) {
  const pattern = useMemo(() => patternOf(values), [values.join("\n")]);
  if (!pattern) return <>{text}</>;
  const parts: preact.JSX.Element[] = [];
  let end = 0;
  for (const match of text.matchAll(pattern)) {
    const value = match[0];
    parts.push(<>{text.slice(end, match.index)}</>);
    const kind = `value${value === chosen ? " chosen" : ""} ${more?.(value) ?? ""}`;
    parts.push(
      onValue ? (
        <button class={kind} onClick={() => onValue(value)}>
          {value}
        </button>
      ) : (
        <mark class={kind}>{value}</mark>
      ),
    );
    end = match.index + value.length;
  }
  return (
    <>
      {parts}
      {text.slice(end)}
    </>
  );
}

/** Return a pattern of whole values: no part of a longer value matches. */
function patternOf(values: string[]): RegExp | null {
  if (values.length === 0) return null;
  const each = [...values].sort((a, b) => b.length - a.length).map((value) => value.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"));
  // An escaped line break or tab is white space, so its letter does not begin a value.
  const start = String.raw`(?:(?<=\\[ntr])|(?<![A-Za-z0-9][._-]*))`;
  return new RegExp(`${start}(?:${each.join("|")})(?![._-]*[A-Za-z0-9])`, "g");
}
