// Where the user is, in the address's fragment: #/session/KEY/VIEW/ITEM?branch=N; #/store/NODE
import { useEffect, useState } from "preact/hooks";

export type View = "misses" | "timeline" | "call" | "graph" | "result" | "savings";
export const VIEWS: View[] = ["misses", "timeline", "call", "graph", "result", "savings"];

export interface Place {
  page: "sessions" | "overall" | "session" | "store";
  session: string;
  view: View;
  item: number | null;
  branch: number | null;
  /** Of the graph store: a node's id, or nothing for the root. */
  node: string;
}

const PAGES = ["overall", "store"] as const;

export function readPlace(hash: string): Place {
  const [path, query = ""] = hash.replace(/^#\/?/, "").split("?");
  const [page, session = "", view = "", item = ""] = path.split("/");
  const branch = new URLSearchParams(query).get("branch");
  return {
    page: page === "session" && session ? "session" : (PAGES.find((known) => known === page) ?? "sessions"),
    session: decode(session),
    node: page === "store" ? decode(session) : "",
    view: VIEWS.includes(view as View) ? (view as View) : "misses",
    item: /^\d+$/.test(item) ? Number(item) : null,
    branch: branch !== null && /^\d+$/.test(branch) ? Number(branch) : null,
  };
}

export function address(
  session: string,
  view: View = "misses",
  item: number | null = null,
  branch: number | null = null,
): string {
  const end = (item === null ? "" : `/${item}`) + (branch === null ? "" : `?branch=${branch}`);
  return `#/session/${encodeURIComponent(session)}/${view}${end}`;
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
  useEffect(() => {
    const moved = () => setPlace(readPlace(location.hash));
    addEventListener("hashchange", moved);
    return () => removeEventListener("hashchange", moved);
  }, []);
  return place;
}

function decode(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
