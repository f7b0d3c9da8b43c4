// Why each result was shown or not: a table to sort.
import { useState } from "preact/hooks";
import { decimals, number, plural, room } from "../../format";
import { Loading } from "../../parts/notes";
import { ResultLink } from "../../parts/places";
import { sortable, Table } from "../../parts/table";
import type { SessionData } from "../../session";
import type { CallView, ResultView } from "../../types";
import type { Difference } from "./whatif";

type Column = "position" | "name" | "age" | "reuse" | "relevance" | "usefulness" | "score" | "tokens" | "order";

const COLUMNS: [Column, string, string][] = [
  ["position", "#", "Number of the result’s message"],
  ["name", "Tool", ""],
  ["age", "Age", "Turns since its call"],
  ["reuse", "Reuse c", "Observed reuse: uses of its values; a value that n results hold counts 1/n"],
  ["relevance", "Relevance s", "Cosine to what the agent is doing now"],
  ["usefulness", "Usefulness U", "Usefulness: recency, reuse and relevance, weighted"],
  ["score", "Score", "U less redundancy, when it was taken or last considered; under the live default S, when the prompt was last rebuilt"],
  ["tokens", "Tokens", "Of the result; with its call, in brackets"],
  ["order", "Taken", "The order in which it was taken, or why it was not"],
];

/** How much of a call is asked for: some of its results, in an order, and its last messages. */
export interface Page {
  sort: string;
  down: boolean;
  rows: number;
  window: number;
}

export const FIRST: Page = { sort: "order", down: false, rows: 120, window: 150 };
/** How many more results a press asks for. */
const MORE = 500;

interface Props {
  view: CallView;
  page: Page;
  onPage: (page: Page) => void;
  data: SessionData;
  difference: Difference | null;
}

export function Scores({ view, page, onPage, data, difference }: Props) {
  const [open, setOpen] = useState<number | null>(null);
  const { results: rows, count } = view.explain;
  if (count === 0) return null;
  if (view.rough) return <Loading what="Working out why…" />;
  const sort = { key: page.sort, down: page.down };
  const heads = COLUMNS.map(([column, name, hint]) => {
    const head = { name, hint, num: column !== "name" && column !== "order" };
    return sortable(head, column as string, sort, ({ key, down }) => onPage({ ...page, sort: key, down }), startsDown(column));
  });
  return (
    <section class="scores">
      <h2>
        Why <small>{plural(count, "result")}</small>
      </h2>
      <Table label="Scores" columns={heads}>
        {rows.map((row) => (
          <Row
            key={row.position}
            row={row}
            open={open === row.position}
            change={difference?.added.includes(row.position) ? "added" : difference?.removed.includes(row.position) ? "removed" : ""}
            data={data}
            toggle={() => setOpen(open === row.position ? null : row.position)}
          />
        ))}
      </Table>
      {rows.length < count && (
        <button class="wide" onClick={() => onPage({ ...page, rows: page.rows + MORE })}>
          Show {number(Math.min(MORE, count - rows.length))} more of {number(count)}
        </button>
      )}
    </section>
  );
}

interface RowProps {
  row: ResultView;
  open: boolean;
  change: string;
  data: SessionData;
  toggle: () => void;
}

function Row({ row, open, change, data, toggle }: RowProps) {
  return (
    <>
      <tr class={`${row.shown} ${change}`}>
        <td class="num">
          <ResultLink data={data} position={row.position} name="" />
        </td>
        <td>
          {row.name || <span class="muted">no call</span>}
          {row.pinned && <span class="tag" title="Its caller asked to keep it in view">pinned</span>}
        </td>
        <td class="num">{number(row.age)}</td>
        <td class="num">
          {row.uses.length ? (
            <button class="link" aria-expanded={open} title={`${plural(row.uses.length, "use")}: show them`} onClick={toggle}>
              {decimals(row.reuse)}
            </button>
          ) : (
            decimals(row.reuse)
          )}
        </td>
        <td class="num">{decimals(row.relevance, 3)}</td>
        <td class="num">{decimals(row.usefulness, 3)}</td>
        <td class="num">{decimals(row.score, 3)}</td>
        <td class="num">
          {number(row.tokens)} <small>({number(row.cost)})</small>
        </td>
        <td>
          {row.order !== null && <span class={`tag ${row.shown}`}>{row.shown === "complete" ? `taken ${row.order}` : `${row.shown}, ${row.order}`}</span>}{" "}
          {row.reason !== "selected" && <span class="muted">{row.reason + room(row)}</span>}
        </td>
      </tr>
      {open && (
        <tr class="uses">
          <td colSpan={COLUMNS.length}>
            <ul>
              {row.uses.map((use, index) => (
                <li key={index}>
                  Turn {use.turn}, {use.name ? <code>{use.name}</code> : "text"} of message #{use.position}:{" "}
                  {use.values.map(({ value, results }) => (
                    <span key={value} class="mono chip" title={`1 of n = ${results}: ${plural(results, "result")} hold it`}>
                      {value} <small>1/{results}</small>
                    </span>
                  ))}
                </li>
              ))}
            </ul>
          </td>
        </tr>
      )}
    </>
  );
}

const startsDown = (column: Column): boolean => !["position", "name", "age", "order"].includes(column);
