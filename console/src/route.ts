// Where the user is, in the address's fragment: #/session/KEY/VIEW/ITEM?branch=N&tool=...; #/store/NODE;
// #/search?text=...
import { useState } from "preact/hooks";
import { useEvent } from "./preferences";

/** The views of a session, as they are named. */
export const VIEWS = {
  misses: "Misses",
  tools: "Tools",
  timeline: "Timeline",
  call: "One call",
  graph: "Reuse graph",
  result: "Results",
  savings: "Savings",
};
export type View = keyof typeof VIEWS;

export interface Place {
  page: "sessions" | "overall" | "session" | "store" | "search";
  session: string;
  view: View;
  item: number | null;
  branch: number | null;
  /** What a view is set to: filters, an order, what is asked of a call. */
  options: Options;
  /** Of the graph store: a node's id, or nothing for the root. */
  node: string;
}

export type Options = Record<string, string>;

const PAGES = ["overall", "store", "search"] as const;

export function readPlace(hash: string): Place {
  const [path, query = ""] = hash.replace(/^#\/?/, "").split("?");
  const [page, session = "", view = "", item = ""] = path.split("/");
  const { branch = null, ...options } = Object.fromEntries(new URLSearchParams(query)) as { branch?: string };
  return {
    page: page === "session" && session ? "session" : (PAGES.find((known) => known === page) ?? "sessions"),
    session: decode(session),
    node: page === "store" ? decode(session) : "",
    view: Object.hasOwn(VIEWS, view) ? (view as View) : "misses",
    item: /^\d+$/.test(item) ? Number(item) : null,
    branch: branch !== null && /^\d+$/.test(branch) ? Number(branch) : null,
    options,
  };
}

export function address(
  session: string,
  view: View = "misses",
  item: number | null = null,
  branch: number | null = null,
  options: Options = {},
): string {
  const query = new URLSearchParams({ ...(branch === null ? {} : { branch: String(branch) }), ...options }).toString();
  const end = (item === null ? "" : `/${item}`) + (query && `?${query}`);
  return `#/session/${encodeURIComponent(session)}/${view}${end}`;
}

/** Where a search is; nothing is said of what is not asked. */
export function searchAddress(asked: Options): string {
  const query = new URLSearchParams(Object.entries(asked).filter(([, value]) => value !== "")).toString();
  return `#/search${query && `?${query}`}`;
}

/** One option of a view, kept in the address; nothing is said of what is usual. */
export function useOption<T extends string = string>(place: Place, name: string, usual: T): [T, (value: T) => void] {
  const choose = (value: T) => {
    const { [name]: _, ...others } = place.options;
    const options = value === usual ? others : { ...others, [name]: value };
    go(address(place.session, place.view, place.item, place.branch, options), true);
  };
  return [(place.options[name] as T | undefined) ?? usual, choose];
}

/** Goes there; `replace` leaves no entry behind for the back button. */
export function go(where: string, replace = false): void {
  if (replace) {
    history.replaceState(null, "", where);
    dispatchEvent(new HashChangeEvent("hashchange"));
  } else location.hash = where;
}

export function usePlace(): Place {
  const [place, setPlace] = useState(() => readPlace(location.hash));
  useEvent("hashchange", () => setPlace(readPlace(location.hash)));
  return place;
}

function decode(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
