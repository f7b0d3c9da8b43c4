// What calls lacked that their answers then used or asked for again, and what would have shown it.
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { ask, isAbort } from "../api";
import { number, plural } from "../format";
import { together } from "../parts/remedies";
import { ResultLink } from "../parts/places";
import { room } from "../parts/room";
import { Empty, Failure, Loading } from "../parts/notes";
import { num, Table, text } from "../parts/table";
import { address, useOption } from "../route";
import { COMPLETE, type SessionData } from "../session";
import type { MissesView, MissView, RemediesView } from "../types";
import { Remedies, type Setting } from "./misses/net";
import type { ViewProps } from "./props";

const FILTERS = ["all", "never shown", "dropped and used later", "restored", "names only"] as const;
type Filter = (typeof FILTERS)[number];

const SAID: Record<Filter, string> = {
  all: "Every result that was out of view when an answer needed it",
  "never shown": "No call before had it complete",
  "dropped and used later": "An earlier call had it complete",
  restored: "A later call had it complete again",
  "names only": "Names of tools and fields, which an agent knows without the result: not counted",
};

const AT_ONCE = 100;
/** Of how many settings are sought at a press. */
const LOOKS = 20;
/** How many policies are compared over the whole session. */
const TRIED = 3;
/** How many policies are named in a row. */
const NAMED = 2;
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

/** Settings that would have shown misses, by `keyOf`: as they are found, or the error's words. */
type Found = Map<string, RemediesView | "busy" | string>;
const keyOf = (miss: MissView): string => `${miss.turn}/${miss.position}`;

function useRemedies(session: string, branch: number | null) {
  const [found, setFound] = useState<Found>(new Map());
  const stop = useRef(new AbortController());
  useEffect(() => () => stop.current.abort(), []);
  const set = (miss: MissView, value: RemediesView | string) => setFound((now) => new Map(now).set(keyOf(miss), value));
  /** One after the other: each renders the call anew a dozen times. */
  const find = async (misses: MissView[]) => {
    for (const miss of misses) {
      set(miss, "busy");
      try {
        set(miss, await ask<RemediesView>("remedies", { session, branch, turn: miss.turn, position: miss.position }, stop.current.signal));
      } catch (error) {
        if (isAbort(error)) return;
        set(miss, error instanceof Error ? error.message : String(error));
      }
    }
  };
  return { found, find };
}

/** `damaged`: the store has lost a part of the session. */
export function Misses({ place, data, damaged }: ViewProps & { damaged: boolean }) {
  const { session, branch } = place;
  const { misses, next, error } = useMisses(session, branch, data.last);
  const [filter, setFilter] = useOption<Filter>(place, "only", "all");
  const [limit, setLimit] = useState(AT_ONCE);
  const { found, find } = useRemedies(session, branch);
  const sorted = useMemo(
    () => misses.map((miss) => ({ miss, kinds: miss.names_only ? (["names only"] as Filter[]) : kindsOf(miss, data) })),
    [misses, data.version],
  );
  const real = misses.filter((miss) => !miss.names_only);
  if (error !== null) return <Failure error={error} />;
  if (real.length === 0 && filter !== "names only") {
    if (next !== null) return <Loading what="Looking for what calls lacked…" />;
    if (damaged) return <Empty title="No call lacked anything in what is left of the session">Calls after the part that the store lost cannot be judged.</Empty>;
    return (
      <Empty title="No call lacked what its answer needed">
        <p>Every value that an answer used was in what the model was shown, and no call was repeated.</p>
        {misses.length > 0 && (
          <button onClick={() => setFilter("names only")}>{plural(misses.length, "result")} held names of tools or fields alone</button>
        )}
      </Empty>
    );
  }
  const shown = sorted.filter(({ kinds }) => kinds.includes(filter));
  const turns = new Set(real.map((miss) => miss.turn)).size;
  const open = shown.slice(0, limit).map(({ miss }) => miss).filter((miss) => !found.has(keyOf(miss))).slice(0, LOOKS);
  const busy = [...found.values()].includes("busy");
  return (
    <div class="misses">
      <p class="verdict">
        <strong>{plural(turns, "turn")}</strong> of {number(next === null ? data.last : next - 1)} needed what was out of view:{" "}
        {plural(real.length, "result")} in all.
        {next !== null && ` Still looking at the other ${number(data.last - next + 1)}.`}
      </p>
      <Answer
        found={[...found.values()].filter((one) => typeof one !== "string")}
        session={session}
        branch={branch}
        policy={data.policy}
      />
      <p class="verdict">
        {open.length > 0 && !busy && (
          <button class="primary" onClick={() => void find(open)}>
            What would have shown {open.length === 1 ? "it" : `${found.size ? "the next" : "the first"} ${number(open.length)}`}?
          </button>
        )}
        {busy && <span class="spinner" role="status" aria-label="Trying other settings" />}
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
          <Row key={keyOf(miss)} miss={miss} session={session} branch={branch} found={found.get(keyOf(miss))} onFind={() => void find([miss])} />
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

interface AnswerProps {
  found: RemediesView[];
  session: string;
  branch: number | null;
  policy: string;
}

/** What was tried, each with what it wins and loses over the whole session. */
function Answer({ found, session, branch, policy }: AnswerProps) {
  const { budget, shown, policies } = together(found);
  const remedies: Setting[] = policies.slice(0, TRIED).map(([name, count]) => ({ policy: name, budget: null, shown: count }));
  if (budget !== null) remedies.unshift({ policy, budget, shown });
  if (found.length === 0) return null;
  if (remedies.length === 0) return <span role="status">No budget up to 96,000 and no other policy would have shown any. </span>;
  return <Remedies session={session} branch={branch} policy={policy} looked={found.length} remedies={remedies} />;
}

interface RowProps {
  miss: MissView;
  session: string;
  branch: number | null;
  found: RemediesView | "busy" | string | undefined;
  onFind: () => void;
}

function Row({ miss, session, branch, found, onFind }: RowProps) {
  return (
    <tr>
      <th scope="row" class="num">
        <a href={address(session, "call", miss.turn, branch)}>{number(miss.turn)}</a>
      </th>
      <td>
        <ResultLink session={session} branch={branch} position={miss.position} name={miss.name} />
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
        <Remedy found={found} onFind={onFind} />
      </td>
    </tr>
  );
}

function Remedy({ found, onFind }: Pick<RowProps, "found" | "onFind">) {
  if (found === "busy") return <span class="spinner" role="status" aria-label="Trying other settings" />;
  if (found === undefined || typeof found === "string") {
    return (
      <>
        <button class="link" onClick={onFind}>
          Find out
        </button>
        {found && <small class="bad">{found}</small>}
      </>
    );
  }
  const larger = found.budget === null ? "no budget up to 96,000" : `a budget of ${number(found.budget)}`;
  const named = found.policies.slice(0, NAMED).join(", ");
  const rest = found.policies.length - NAMED;
  const others = named && `, or ${named}${rest > 0 ? ` and ${plural(rest, "other policy", "other policies")}` : ""}`;
  return <span title={found.policies.join(", ")}>{larger + others + (found.complete ? "" : " (not all were tried: there was no time)")}</span>;
}
