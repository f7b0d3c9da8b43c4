// A table in a scrolling box that the keyboard reaches.
import { type ComponentChildren, Fragment } from "preact";
import { type Place, useOption } from "../route";
import { Icon } from "./icon";

/** A column: its head, and the cell of a row. */
export interface Column<R> {
  name: ComponentChildren;
  cell: (row: R) => ComponentChildren;
  hint?: string;
  /** The class of its cells; numbers are "num". */
  kind?: string;
  kindOf?: (row: R) => string;
  title?: (row: R) => string | undefined;
  /** The name by which its head sorts the rows, and whether ascending at first. */
  by?: string;
  rising?: boolean;
}

export const text = <R,>(name: ComponentChildren, cell: Column<R>["cell"], more: Partial<Column<R>> = {}): Column<R> => ({ name, cell, ...more });
export const num = <R,>(name: ComponentChildren, cell: Column<R>["cell"], more: Partial<Column<R>> = {}): Column<R> => ({ name, cell, kind: "num", ...more });

/** The actions of a row. Only screen readers get the column's head. */
export const actions = <R,>(cell: Column<R>["cell"]): Column<R> => ({ name: <span class="hidden">Actions</span>, cell, kind: "actions" });

export interface Sorted {
  key: string;
  down: boolean;
}

/** The order of a table in the address: the name of a column, after a minus if descending. */
export function useSort(place: Place, usual = ""): [Sorted | undefined, (sort: Sorted) => void] {
  const [order, setOrder] = useOption<string>(place, "sort", usual);
  return [order ? { key: order.replace("-", ""), down: order[0] === "-" } : undefined, ({ key, down }) => setOrder((down ? "-" : "") + key)];
}

interface Props<R> {
  label: string;
  columns: Column<R>[];
  rows: R[];
  keyOf: (row: R) => string | number;
  /** The class of the table. */
  kind?: string;
  /** The class of a row. */
  kindOf?: (row: R) => string;
  /** True if the first cell of a row is its head. */
  named?: boolean;
  foot?: R;
  /** The content below a row. */
  below?: (row: R) => ComponentChildren;
  sort?: Sorted;
  onSort?: (next: Sorted) => void;
}

/** A head that sorts the rows. A second press reverses the order. */
export function Table<R>({ label, columns, rows, keyOf, kind, kindOf, named = true, foot, below, sort, onSort }: Props<R>) {
  const line = (row: R) => (
    <tr class={kindOf?.(row)}>
      {columns.map((column, place) => {
        const attributes = { class: column.kindOf?.(row) ?? column.kind, title: column.title?.(row) };
        return named && place === 0 ? (
          <th key={place} scope="row" {...attributes}>
            {column.cell(row)}
          </th>
        ) : (
          <td key={place} {...attributes}>
            {column.cell(row)}
          </td>
        );
      })}
    </tr>
  );
  return (
    <div class="scroll" tabIndex={0} role="region" aria-label={label}>
      <table class={kind}>
        <thead>
          <tr>
            {columns.map(({ name, hint, kind, by, rising = false }, place) => {
              const down = by && sort?.key === by ? sort.down : null;
              const sorted = down === null ? "none" : down ? "descending" : "ascending";
              return (
                <th key={place} scope="col" class={kind === "num" ? kind : undefined} title={hint} tabIndex={hint && !by ? 0 : undefined} aria-sort={by ? sorted : undefined}>
                  {by ? (
                    <button class="sort" onClick={() => onSort?.({ key: by, down: down === null ? !rising : !down })}>
                      {name}
                      {down !== null && <Icon name={down ? "down" : "up"} />}
                    </button>
                  ) : (
                    name
                  )}
                </th>
              );
            })}
          </tr>
        </thead>
        <tbody>
          {rows.map((row) => (
            <Fragment key={keyOf(row)}>
              {line(row)}
              {below?.(row)}
            </Fragment>
          ))}
        </tbody>
        {foot && <tfoot>{line(foot)}</tfoot>}
      </table>
    </div>
  );
}
