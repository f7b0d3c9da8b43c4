// A table of the results with the reason why each was shown or omitted.
import { useState } from "preact/hooks";
import { decimals, number, plural, room } from "../../format";
import { OldVersion, ResultLink } from "../../parts/links";
import { MORE, More } from "../../parts/notes";
import { type Column, num, type Sorted, Table, text } from "../../parts/table";
import type { SessionData } from "../../session";
import type { CallView, ResultView } from "../../types";

/** `by` is the server's name of the order. `open` is the result whose uses are shown. */
const columnsOf = (data: SessionData, open: number | null, onOpen: (position: number | null) => void): Column<ResultView>[] => [
  num("#", ({ position }) => <ResultLink data={data} position={position} name="" />, { hint: "Number of the result’s message", by: "position", rising: true }),
  text("Tool", ({ name, pinned, display, edited_at: editedAt }) => (
    <>
      {name || <span class="muted">no call</span>}
      {pinned && <span class="tag" title="Its caller asked to keep it in view">pinned</span>}
      {editedAt !== null && display !== "omitted" && <OldVersion editedAt={editedAt} />}
    </>
  ), { by: "name", rising: true }),
  num("Age", ({ age }) => number(age), { hint: "Turns since its call", by: "age", rising: true }),
  num("Reuse c", ({ position, reuse, uses }) =>
    uses.length ? (
      <button
        class="link"
        aria-expanded={open === position}
        title={`${plural(uses.length, "use")}: show them`}
        onClick={() => onOpen(open === position ? null : position)}
      >
        {decimals(reuse)}
      </button>
    ) : (
      decimals(reuse)
    ), { hint: "Observed reuse: uses of its values; a value that n results hold counts 1/n", by: "reuse" }),
  num("Relevance s", (row) => decimals(row.relevance, 3), { hint: "Cosine to what the agent is doing now", by: "relevance" }),
  num("Usefulness U", (row) => decimals(row.usefulness, 3), { hint: "Usefulness: recency, reuse and relevance, weighted", by: "usefulness" }),
  num("Score", (row) => decimals(row.score, 3), {
    hint: "U less redundancy, when it was taken or last considered; under the live default S, when the prompt was last rebuilt",
    by: "score",
  }),
  num("Tokens", ({ tokens, cost }) => <>{number(tokens)} <small>({number(cost)})</small></>, { hint: "Of the result; with its call, in brackets", by: "tokens" }),
  text("Taken", (row) => (
    <>
      {row.order !== null && <span class={`tag ${row.display}`}>{row.display === "complete" ? `taken ${row.order}` : `${row.display}, ${row.order}`}</span>}{" "}
      {row.reason !== "selected" && <span class="muted">{row.reason + room(row)}</span>}
    </>
  ), { hint: "The order in which it was taken, or why it was not", by: "order", rising: true }),
];

/** The difference that another setting makes in a call: positions of results, and tokens. */
export interface Difference {
  added: number[];
  removed: number[];
  after: number;
}

/** The part of a call to load: the first results, and the last messages. */
export interface Page {
  rows: number;
  window: number;
}

export const FIRST: Page = { rows: 120, window: 150 };

interface Props {
  view: CallView;
  page: Page;
  onPage: (page: Page) => void;
  sort: Sorted | undefined;
  onSort: (sort: Sorted) => void;
  data: SessionData;
  difference: Difference | null;
}

export function Scores({ view, page, onPage, sort, onSort, data, difference }: Props) {
  const [open, setOpen] = useState<number | null>(null);
  const { results: rows, count } = view.explain;
  if (count === 0) return null;
  const columns = columnsOf(data, open, setOpen);
  const change = ({ position }: ResultView) => (difference?.added.includes(position) ? "added" : difference?.removed.includes(position) ? "removed" : "");
  return (
    <section class="scores">
      <h2>
        Why <small>{plural(count, "result")}</small>
      </h2>
      <Table
        label="Scores"
        columns={columns}
        rows={rows}
        keyOf={({ position }) => position}
        kindOf={(row) => `${row.display} ${change(row)}`}
        named={false}
        sort={sort}
        onSort={onSort}
        below={(row) => open === row.position && <Uses row={row} columns={columns.length} />}
      />
      <More there={rows.length} all={count} onMore={() => onPage({ ...page, rows: page.rows + MORE })} />
    </section>
  );
}

function Uses({ row, columns }: { row: ResultView; columns: number }) {
  return (
    <tr class="uses">
      <td colSpan={columns}>
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
  );
}
