// The misses of a session: used results that were not complete while the value was not visible.
import { useMemo, useState } from "preact/hooks";
import { request } from "../api";
import { number, plural, room } from "../format";
import { useTask } from "../parts/request";
import { ResultLink } from "../parts/links";
import { Empty, Failure, Loading, MORE, More } from "../parts/notes";
import { type Column, num, Table, text } from "../parts/table";
import { useOption } from "../route";
import { COMPLETE, type SessionData, type ViewProps } from "../session";
import { headlineOf } from "../setting";
import type { MissesView, MissView } from "../types";

const FILTERS = {
  all: "Every miss",
  "never complete": "No earlier call had the result complete",
  dropped: "An earlier call had the result complete",
  restored: "A later call had it complete again",
  "said by the user": "A user or system message said every value before",
  "names only": "Names of tools and fields, which an agent knows without the result: not counted",
};
type Filter = keyof typeof FILTERS;

const FIRST_ROWS = 100;

/** `next` is the turn to continue from; null if all are loaded. */
type Loaded = Pick<MissesView, "misses" | "next">;

/** Load all misses, page by page, and again after each call. */
function useMisses({ branch, setting, last }: SessionData) {
  const load = async (report: (loaded: Loaded) => void, signal: AbortSignal) => {
    let loaded: Loaded = { misses: [], next: 1 };
    while (loaded.next !== null) {
      const page: Loaded = await request<MissesView>("misses", { ...branch, ...setting, start: loaded.next }, signal);
      loaded = { misses: [...loaded.misses, ...page.misses], next: page.next };
      report(loaded);
    }
  };
  return useTask<Loaded>({ misses: [], next: 1 }, load, [branch, JSON.stringify(setting), last]);
}

/** `isCorrupted`: the store has lost a part of the session. */
export function Misses({ place, data, isCorrupted }: ViewProps & { isCorrupted: boolean }) {
  const { value: { misses, next }, error, again } = useMisses(data);
  const [filter, setFilter] = useOption<Filter>(place, "only", "all");
  const [limit, setLimit] = useState(FIRST_ROWS);
  const filters = useMemo(() => new Map(misses.map((miss) => [miss, filtersOf(miss, data)])), [misses, data.version]);
  const under = (name: Filter) => misses.filter((miss) => filters.get(miss)!.includes(name));
  const countedMisses = under("all");
  if (error !== null) return <Failure error={error} again={again} />;
  if (countedMisses.length === 0 && filter !== "names only") {
    if (next !== null) return <Loading what="Looking for misses…" />;
    if (isCorrupted) return <Empty title="No miss in what is left of the session">Calls after the missing part cannot be judged.</Empty>;
    return (
      <Empty title="No step missed a value">
        <p>Every value that an answer used was visible in its prompt, and no call was repeated for an omitted result.</p>
        {misses.length > 0 && <button onClick={() => setFilter("names only")}>{plural(misses.length, "result")} held only names of tools or fields</button>}
      </Empty>
    );
  }
  const columns: Column<MissView>[] = [
    num("Turn", ({ turn }) => <a href={data.to("call", turn)}>{number(turn)}</a>),
    text("Result", ({ position, name, display: shown }) => (
      <>
        <ResultLink data={data} position={position} name={name} />
        {shown !== "omitted" && <span class="tag warn">{shown}</span>}
      </>
    )),
    text("Missing", ({ repeated: isRepeated, values, source_messages: said }) => (
      <>
        {isRepeated && <span class="tag warn">called again</span>}{" "}
        {values.slice(0, 5).map((value, index) => (
          <code key={value} title={said[index] < 0 ? "" : `Message #${said[index]} said it before`}>{value} </code>
        ))}
        {isSaid(said) && <span class="tag">said by the user</span>}
        {values.length > 5 && <small>{number(values.length - 5)} more</small>}
      </>
    )),
    text("Reason", (miss) => miss.reason + room(miss), { kind: "muted" }),
  ];
  const rows = under(filter);
  return (
    <div class="misses">
      <p class="verdict">
        {headlineOf(data.counts)}{" "}
        {next !== null && `${number(data.last - next + 1)} turns are not judged yet.`}
        {data.setting === null && countedMisses.length > 0 && (
          <>
            {" "}
            <a href={data.to("timeline")}>Which setting would have avoided it?</a>
          </>
        )}
      </p>
      <div class="toolbar" role="group" aria-label="Filter">
        {(Object.keys(FILTERS) as Filter[]).map((name) => (
          <button key={name} aria-pressed={filter === name} title={FILTERS[name]} onClick={() => setFilter(name)}>
            {name} <small>{number(under(name).length)}</small>
          </button>
        ))}
      </div>
      <Table label="Misses" columns={columns} rows={rows.slice(0, limit)} keyOf={({ turn, position }) => `${turn}/${position}`} />
      <More there={limit} all={rows.length} onMore={() => setLimit(limit + MORE)} />
    </div>
  );
}

/** Return whether a user or system message said every value of a miss. */
const isSaid = (said: number[]): boolean => said.length > 0 && said.every((position) => position >= 0);

/** Return the filters that a miss passes, as far as the timeline is loaded. */
function filtersOf(miss: MissView, data: SessionData): Filter[] {
  if (miss.names_only) return ["names only"];
  const isComplete = (turn: number) => data.state(turn, miss.result) === COMPLETE;
  const before = data.turns.some((_, turn) => turn < miss.turn - 1 && isComplete(turn));
  const after = data.turns.some((_, turn) => turn >= miss.turn && isComplete(turn));
  return ["all", ...(isSaid(miss.source_messages) ? (["said by the user"] as const) : []), before ? "dropped" : "never complete", ...(after ? (["restored"] as const) : [])];
}
