// What calls lacked that their answers then used or asked for again, and what would have shown it.
import { useEffect, useMemo, useState } from "preact/hooks";
import { ask, isAbort } from "../api";
import { number, plural } from "../format";
import { room } from "../parts/room";
import { Empty, Failure, Loading } from "../parts/notes";
import { num, Table, text } from "../parts/table";
import { address, useOption } from "../route";
import { COMPLETE, type SessionData } from "../session";
import type { MissesView, MissView, RemediesView } from "../types";
import type { ViewProps } from "./props";

const FILTERS = ["all", "never shown", "dropped and used later", "restored"] as const;
type Filter = (typeof FILTERS)[number];

const SAID: Record<Filter, string> = {
  all: "Every result that was out of view when an answer needed it",
  "never shown": "No call before had it complete",
  "dropped and used later": "An earlier call had it complete",
  restored: "A later call had it complete again",
};

const AT_ONCE = 100;
const COLUMNS = [num("Turn"), text("Result"), text("What it needed"), text("Why it was out"), text("What would have shown it")];

/** All misses, page by page; asked again from the last known turn whenever `stamp` changes. */
function useMisses(session: string, branch: number | null, stamp: number) {
  const [state, setState] = useState<{ misses: MissView[]; next: number | null; error: unknown }>({ misses: [], next: 1, error: null });
  useEffect(() => {
    const stop = new AbortController();
    const load = async () => {
      let found: MissView[] = [];
      for (let next: number | null = 1; next !== null; ) {
        const page: MissesView = await ask<MissesView>("misses", { session, branch, start: next }, stop.signal);
        found = found.concat(page.misses);
        next = page.next;
        setState({ misses: found, next, error: null });
      }
    };
    load().catch((error) => !isAbort(error) && setState((now) => ({ ...now, error })));
    return () => stop.abort();
  }, [session, branch, stamp]);
  return state;
}

export function Misses({ place, data }: ViewProps) {
  const { session, branch } = place;
  const { misses, next, error } = useMisses(session, branch, data.last);
  const [filter, setFilter] = useOption<Filter>(place, "only", "all");
  const [limit, setLimit] = useState(AT_ONCE);
  const sorted = useMemo(() => misses.map((miss) => ({ miss, kinds: kindsOf(miss, data) })), [misses, data.version]);
  if (error !== null) return <Failure error={error} />;
  if (misses.length === 0) {
    if (next !== null) return <Loading what="Looking for what calls lacked…" />;
    return (
      <Empty title="No call lacked anything its answer needed">
        <p>Every value that an answer took from a result stood in what the model was shown, and no call was made twice for want of its result.</p>
      </Empty>
    );
  }
  const shown = sorted.filter(({ kinds }) => kinds.includes(filter));
  const turns = new Set(misses.map((miss) => miss.turn)).size;
  return (
    <div class="misses">
      <p class="verdict">
        <strong>{plural(turns, "turn")}</strong> of {number(data.last)} needed what was out of view: {plural(misses.length, "result")} in all.
        {next !== null && " Still looking…"}
      </p>
      <div class="toolbar" role="group" aria-label="Which misses">
        {FILTERS.map((name) => (
          <button key={name} aria-pressed={filter === name} title={SAID[name]} onClick={() => setFilter(name)}>
            {name} <small>{number(sorted.filter(({ kinds }) => kinds.includes(name)).length)}</small>
          </button>
        ))}
      </div>
      <Table label="Misses" columns={COLUMNS}>
        {shown.slice(0, limit).map(({ miss }) => (
          <Row key={`${miss.turn}/${miss.position}`} miss={miss} session={session} branch={branch} />
        ))}
      </Table>
      {shown.length > limit && (
        <button class="wide" onClick={() => setLimit(limit + 500)}>
          Show more of {number(shown.length)}
        </button>
      )}
    </div>
  );
}

/** The filters that a miss falls under, as far as the timeline is known. */
function kindsOf(miss: MissView, data: SessionData): Filter[] {
  const complete = (turn: number) => data.state(turn, miss.result) === COMPLETE;
  const kinds: Filter[] = ["all"];
  let before = false;
  for (let turn = 0; turn < miss.turn - 1 && !before; turn++) before = complete(turn);
  kinds.push(before ? "dropped and used later" : "never shown");
  for (let turn = miss.turn; turn < data.turns.length; turn++) {
    if (complete(turn)) return [...kinds, "restored"];
  }
  return kinds;
}

function Row({ miss, session, branch }: { miss: MissView; session: string; branch: number | null }) {
  return (
    <tr>
      <th scope="row" class="num">
        <a href={address(session, "call", miss.turn, branch)}>{number(miss.turn)}</a>
      </th>
      <td>
        <a href={address(session, "result", miss.position, branch)}>
          #{miss.position} {miss.name}
        </a>
        {miss.shown !== "omitted" && <span class="tag warn">{miss.shown}</span>}
      </td>
      <td>
        {miss.again && <span class="tag warn">called again</span>}{" "}
        {miss.values.slice(0, 5).map((value) => (
          <code key={value}>{value} </code>
        ))}
        {miss.values.length > 5 && <small>{number(miss.values.length - 5)} more</small>}
      </td>
      <td class="muted">{miss.reason + room(miss)}</td>
      <td>
        <Remedy miss={miss} session={session} branch={branch} />
      </td>
    </tr>
  );
}

function Remedy({ miss, session, branch }: { miss: MissView; session: string; branch: number | null }) {
  const [found, setFound] = useState<RemediesView | null>(null);
  const [state, setState] = useState<"" | "busy" | string>("");
  if (found) {
    const larger = found.budget === null ? "no budget up to 96,000" : `a budget of ${number(found.budget)}`;
    const others = found.policies.length ? `, or ${found.policies.join(", ")}` : "";
    return <span>{larger + others + (found.complete ? "" : " (not all were tried: there was no time)")}</span>;
  }
  const look = async () => {
    setState("busy");
    try {
      setFound(await ask<RemediesView>("remedies", { session, branch, turn: miss.turn, position: miss.position }));
    } catch (error) {
      setState(error instanceof Error ? error.message : String(error));
    }
  };
  if (state === "busy") return <span class="spinner" role="status" aria-label="Trying other settings" />;
  return (
    <>
      <button class="link" onClick={() => void look()}>
        Find out
      </button>
      {state && <small class="bad">{state}</small>}
    </>
  );
}
