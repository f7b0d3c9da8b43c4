// The current place, in the address's fragment: #/session/KEY/VIEW/ITEM?branch=N&tool=...; #/store/NODE;
// #/search?text=...
import { useState } from "preact/hooks";
import { useEvent } from "./preferences";

/** The names of a session's views. */
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
  /** The options of a view: filters, an order, the setting of a call. */
  options: Options;
  /** In the graph store: a node's id; empty for the root. */
  node: string;
}

export type Options = Record<string, string>;

const PAGES = ["overall", "store", "search"] as const;

export function readPlace(hash: string): Place {
  const [path, query = ""] = hash.replace(/^#\/?/, "").split("?");
  const [page, session = "", view = "", item = ""] = path.split("/");
  const { branch = null, ...options } = Object.fromEntries(new URLSearchParams(query)) as { branch?: string };
  return {
    page: page === "session" && session ? "session" : (PAGES.find((pageName) => pageName === page) ?? "sessions"),
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

/** Return the address of a search. Empty options are not in it. */
export function searchAddress(search: Options): string {
  const query = new URLSearchParams(Object.entries(search).filter(([, value]) => value !== "")).toString();
  return `#/search${query && `?${query}`}`;
}

/** Return an option of a view and its setter. The address has it unless it is the default. */
export function useOption<T extends string = string>(place: Place, name: string, usual: T): [T, (value: T) => void] {
  const choose = (value: T) => {
    const { [name]: _, ...others } = place.options;
    const options = value === usual ? others : { ...others, [name]: value };
    go(address(place.session, place.view, place.item, place.branch, options), true);
  };
  return [(place.options[name] as T | undefined) ?? usual, choose];
}

/** Go to a place. With `replace`, the back button skips the current one. */
export function go(target: string, replace = false): void {
  if (replace) {
    history.replaceState(null, "", target);
    dispatchEvent(new HashChangeEvent("hashchange"));
  } else location.hash = target;
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
