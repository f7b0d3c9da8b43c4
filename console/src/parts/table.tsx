// A table with its head, in a box that scrolls and is in the order of keys.
import type { ComponentChildren } from "preact";
import { Icon } from "./icon";

export interface Column {
  name: ComponentChildren;
  hint?: string;
  num?: boolean;
  sorted?: "ascending" | "descending" | "none";
}

interface Props {
  label: string;
  columns: Column[];
  kind?: string;
  foot?: ComponentChildren;
  children: ComponentChildren;
}

export const text = (name: ComponentChildren, hint?: string): Column => ({ name, hint });
export const num = (name: ComponentChildren, hint?: string): Column => ({ name, hint, num: true });
export interface Sorted<K> {
  key: K;
  down: boolean;
}

/** A column whose head orders the rows: once more, and it turns them around. */
export function sortable<K>(column: Column, key: K, now: Sorted<K>, onSort: (next: Sorted<K>) => void, down = true): Column {
  const on = now.key === key;
  return {
    ...column,
    name: (
      <button class="sort" onClick={() => onSort({ key, down: on ? !now.down : down })}>
        {column.name}
        {on && <Icon name={now.down ? "down" : "up"} />}
      </button>
    ),
    sorted: on ? (now.down ? "descending" : "ascending") : "none",
  };
}

/** A column whose head is only heard. */
export const unseen = (name: string): Column => ({ name: <span class="hidden">{name}</span> });

export function Table({ label, columns, kind, foot, children }: Props) {
  return (
    <div class="scroll" tabIndex={0} role="region" aria-label={label}>
      <table class={kind}>
        <thead>
          <tr>
            {columns.map((column, place) => (
              <th key={place} scope="col" class={column.num ? "num" : undefined} title={column.hint} tabIndex={column.hint && !column.sorted ? 0 : undefined} aria-sort={column.sorted}>
                {column.name}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>{children}</tbody>
        {foot && <tfoot>{foot}</tfoot>}
      </table>
    </div>
  );
}
