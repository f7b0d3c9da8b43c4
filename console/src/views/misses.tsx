// What calls lacked that their answers then used or asked for again, and what would have shown it.
import { useMemo, useState } from "preact/hooks";
import { ask } from "../api";
import { number, plural, room } from "../format";
import { useTask } from "../parts/load";
import { ResultLink } from "../parts/places";
import { Empty, Failure, Loading } from "../parts/notes";
import { type Column, num, Table, text } from "../parts/table";
import { useOption } from "../route";
import { COMPLETE, type SessionData, type ViewProps } from "../session";
import type { MissesView, MissView, RemediesView } from "../types";
import { Remedies } from "./misses/net";

const FILTERS = {
  all: "Every result that was out of view when an answer needed it",
  "never shown": "No call before had it complete",
  "dropped and used later": "An earlier call had it complete",
  restored: "A later call had it complete again",
  "names only": "Names of tools and fields, which an agent knows without the result: not counted",
};
type Filter = keyof typeof FILTERS;

const AT_ONCE = 100;
/** Of how many settings are sought at a press. */
const LOOKS = 20;
/** How many policies are named in a row. */
const NAMED = 2;

/** `next`: the turn to ask from; null where all are known. */
type Known = Pick<MissesView, "misses" | "next">;

/** All misses, page by page; asked again with each call. */
function useMisses({ line, last }: SessionData) {
  const load = async (tell: (known: Known) => void, signal: AbortSignal) => {
    let known: Known = { misses: [], next: 1 };
    while (known.next !== null) {
      const page: Known = await ask<MissesView>("misses", { ...line, start: known.next }, signal);
      known = { misses: [...known.misses, ...page.misses], next: page.next };
      tell(known);
    }
  };
  return useTask<Known>({ misses: [], next: 1 }, load, [line, last]);
}

/** Settings that would have shown misses, by `keyOf`, as they are found; null while one is looked for. */
type Found = Map<string, RemediesView | null>;
const keyOf = (miss: MissView): string => `${miss.turn}/${miss.position}`;

function useRemedies({ line }: SessionData) {
  const [wanted, setWanted] = useState<MissView[]>([]);
  const [known, setKnown] = useState<Found>(new Map());
  /** One after the other: each renders the call anew a dozen times. */
  const look = async (tell: (found: Found) => void, signal: AbortSignal) => {
    const found = new Map(known);
    for (const miss of wanted) {
      tell(new Map(found.set(keyOf(miss), null)));
      found.set(keyOf(miss), await ask<RemediesView>("remedies", { ...line, turn: miss.turn, position: miss.position }, signal));
      tell(new Map(found));
    }
  };
  const { value: found, error, busy } = useTask<Found>(new Map(), look, [wanted]);
  const of = (miss: MissView) => found.get(keyOf(miss)) ?? (busy && found.has(keyOf(miss)) ? null : undefined);
  /** What is still looked for is looked for with it. */
  const find = (misses: MissView[]) => {
    setKnown(new Map([...found].filter(([, one]) => one !== null)));
    const waiting = busy ? wanted.filter((miss) => !found.get(keyOf(miss))) : [];
    setWanted([...new Set([...waiting, ...misses])]);
  };
  return { found, of, find, error, busy };
}

/** `damaged`: the store has lost a part of the session. */
export function Misses({ place, data, damaged }: ViewProps & { damaged: boolean }) {
  const { value: { misses, next }, error } = useMisses(data);
  const [only, setOnly] = useOption<Filter>(place, "only", "all");
  const [limit, setLimit] = useState(AT_ONCE);
  const { found, of, find, error: failed, busy } = useRemedies(data);
  const kinds = useMemo(() => new Map(misses.map((miss) => [miss, kindsOf(miss, data)])), [misses, data.version]);
  const under = (filter: Filter) => misses.filter((miss) => kinds.get(miss)!.includes(filter));
  const real = under("all");
  if (error !== null) return <Failure error={error} />;
  if (real.length === 0 && only !== "names only") {
    if (next !== null) return <Loading what="Looking for what calls lacked…" />;
    if (damaged) return <Empty title="No call lacked anything in what is left of the session">Calls after the part that the store lost cannot be judged.</Empty>;
    return (
      <Empty title="No call lacked what its answer needed">
        <p>Every value that an answer used was in what the model was shown, and no call was repeated.</p>
        {misses.length > 0 && (
          <button onClick={() => setOnly("names only")}>{plural(misses.length, "result")} held names of tools or fields alone</button>
        )}
      </Empty>
    );
  }
  const columns: Column<MissView>[] = [
    num("Turn", ({ turn }) => <a href={data.to("call", turn)}>{number(turn)}</a>),
    text("Result", ({ position, name, shown }) => (
      <>
        <ResultLink data={data} position={position} name={name} />
        {shown !== "omitted" && <span class="tag warn">{shown}</span>}
      </>
    )),
    text("What it needed", ({ again, values }) => (
      <>
        {again && <span class="tag warn">called again</span>}{" "}
        {values.slice(0, 5).map((value) => (
          <code key={value}>{value} </code>
        ))}
        {values.length > 5 && <small>{number(values.length - 5)} more</small>}
      </>
    )),
    text("Why it was out", (miss) => miss.reason + room(miss), { kind: "muted" }),
    text("What would have shown it", (miss) => <Remedy found={of(miss)} onFind={() => find([miss])} />),
  ];
  const shown = under(only);
  const turns = new Set(real.map((miss) => miss.turn)).size;
  const open = shown.slice(0, limit).filter((miss) => of(miss) === undefined).slice(0, LOOKS);
  return (
    <div class="misses">
      <p class="verdict">
        <strong>{plural(turns, "turn")}</strong> of {number(next === null ? data.last : next - 1)} needed what was out of view:{" "}
        {plural(real.length, "result")} in all.
        {next !== null && ` Still looking at the other ${number(data.last - next + 1)}.`}
      </p>
      <Remedies data={data} found={[...found.values()].filter((one) => one !== null)} />
      {failed !== null && <Failure error={failed} />}
      <p class="verdict">
        {open.length > 0 && !busy && (
          <button class="primary" onClick={() => find(open)}>
            What would have shown {open.length === 1 ? "it" : `${found.size ? "the next" : "the first"} ${number(open.length)}`}?
          </button>
        )}
        {busy && <span class="spinner" role="status" aria-label="Trying other settings" />}
      </p>
      <div class="toolbar" role="group" aria-label="Which misses">
        {(Object.keys(FILTERS) as Filter[]).map((name) => (
          <button key={name} aria-pressed={only === name} title={FILTERS[name]} onClick={() => setOnly(name)}>
            {name} <small>{number(under(name).length)}</small>
          </button>
        ))}
      </div>
      <Table label="Misses" columns={columns} rows={shown.slice(0, limit)} keyOf={keyOf} />
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
  if (miss.names_only) return ["names only"];
  const complete = (turn: number) => data.state(turn, miss.result) === COMPLETE;
  const before = data.turns.some((_, turn) => turn < miss.turn - 1 && complete(turn));
  const after = data.turns.some((_, turn) => turn >= miss.turn && complete(turn));
  return ["all", before ? "dropped and used later" : "never shown", ...(after ? (["restored"] as const) : [])];
}

function Remedy({ found, onFind }: { found: RemediesView | null | undefined; onFind: () => void }) {
  if (found === null) return <span class="spinner" role="status" aria-label="Trying other settings" />;
  if (found === undefined) {
    return (
      <button class="link" onClick={onFind}>
        Find out
      </button>
    );
  }
  const larger = found.budget === null ? "no budget up to 96,000" : `a budget of ${number(found.budget)}`;
  const named = found.policies.slice(0, NAMED).join(", ");
  const rest = found.policies.length - NAMED;
  const others = named && `, or ${named}${rest > 0 ? ` and ${plural(rest, "other policy", "other policies")}` : ""}`;
  return <span title={found.policies.join(", ")}>{larger + others + (found.complete ? "" : " (not all were tried: there was no time)")}</span>;
}
