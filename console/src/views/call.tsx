// One model call: the budget, what the model got, why, and what it would have got otherwise.
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { number, percent, plural, short } from "../format";
import { useEvent } from "../preferences";
import { Icon } from "../parts/icon";
import { useReport } from "../parts/request";
import { Empty, Failure, Loading } from "../parts/notes";
import { ResultLinks, TurnInput } from "../parts/links";
import { address, go, readPlace } from "../route";
import { numbersIn, OMITTED, EXCERPT, type SessionData, type ViewProps } from "../session";
import type { CallView, MissesView, MissView } from "../types";
import { Answer } from "./call/answer";
import { BudgetBar } from "./call/budget";
import { Compare } from "./call/compare";
import { Histories } from "./call/histories";
import { FIRST, type Page, Scores } from "./call/scores";
import { type Asked, askedOf, type Difference, optionsOf, WhatIf } from "./call/whatif";

export function Call({ place, data }: ViewProps) {
  const last = data.last;
  const turn = place.item ?? last;
  const known = turn >= 1 && turn <= last;
  const [asked, setAsked] = useState<Asked>(() => askedOf(place.options));
  const [beside, setBeside] = useState<number | null>(() => turnOf(place.options.with));
  // An address that is opened on this page counts as well: its options are not those that this page wrote.
  const written = useRef(JSON.stringify(place.options));
  useEffect(() => {
    if (JSON.stringify(place.options) === written.current) return;
    setAsked(askedOf(place.options));
    setBeside(turnOf(place.options.with));
  }, [JSON.stringify(place.options)]);
  const options = { ...optionsOf(asked), ...(beside === null ? {} : { with: String(beside) }) };
  const changed = Object.keys(asked).length > 0;
  const base = { ...data.branch, turn };
  const [page, setPage] = useState<Page>(FIRST);
  const fields = { ...base, sort: page.sort, down: page.down, rows: page.rows, window: page.window };
  const own = useReport<CallView>("get_call", known ? fields : null);
  const other = useReport<CallView>("get_call", changed && known ? { ...fields, ...asked } : null, 150);
  const missing = { ...data.branch, start: turn, limit: 1 };
  const isAnswered = known && !(data.waiting && turn === last);
  const before = useReport<MissesView>("misses", changed && isAnswered ? missing : null);
  const after = useReport<MissesView>("misses", changed && isAnswered ? { ...missing, ...asked } : null, 150);
  const counted = (view: MissesView) => view.misses.filter((miss) => miss.turn === turn && !miss.names_only);
  const misses: [MissView[], MissView[]] | null = before.value && after.value && !after.busy ? [counted(before.value), counted(after.value)] : null;
  const shown = changed ? (other.value?.explain.turn === turn ? other.value : null) : own.value;
  const view = shown ?? own.value;
  const error = changed ? other.error : own.error;
  // Keys may come faster than the view is drawn anew.
  const here = useRef(place);
  here.current = place;
  const move = (by: number) => goTo((here.current.item ?? last) + by);
  const goTo = (wanted: number) => {
    const item = Math.min(last, Math.max(1, wanted));
    here.current = { ...here.current, item };
    written.current = JSON.stringify(options);
    go(data.to("call", item, options), true);
  };
  useEvent("keydown", (event) => {
    if (event.target instanceof Element && event.target.closest("input, select, textarea, .scroll, [role=application]")) return;
    if (event.altKey || event.ctrlKey || event.metaKey) return;
    if (event.key === "ArrowLeft") move(-1);
    if (event.key === "ArrowRight") move(1);
  });
  // What is asked follows into the address once a slider rests: browsers take only so many changes.
  useEffect(() => {
    const follow = () => {
      // The address is ahead of the view: who has just left is not brought back.
      const { session, view, item, branch } = readPlace(location.hash);
      written.current = JSON.stringify(options);
      if (session === place.session && view === "call") go(address(session, view, item, branch, options), true);
    };
    const timer = setTimeout(follow, 300);
    return () => clearTimeout(timer);
  }, [JSON.stringify(options)]);
  const difference = useMemo(() => (changed && shown && own.value ? compare(own.value, shown, data) : null), [changed, shown, own.value]);
  if (!known) {
    return (
      <Empty title={`There is no turn ${number(turn)}`}>
        <p>
          The last one is <a href={data.to("call", last)}>turn {number(last)}</a>.
        </p>
      </Empty>
    );
  }
  return (
    <div class="call">
      <div class="toolbar">
        <span class="group">
          <button class="icon" aria-label="Previous turn" title="Previous turn (←)" disabled={turn <= 1} onClick={() => move(-1)}>
            <Icon name="left" />
          </button>
          <label class="turn">
            Turn{" "}
            <TurnInput turn={turn} last={last} onTurn={goTo} />{" "}
            of {number(last)}
          </label>
          <button class="icon" aria-label="Next turn" title="Next turn (→)" disabled={turn >= last} onClick={() => move(1)}>
            <Icon name="right" />
          </button>
        </span>
        <input
          class="slide"
          type="range"
          aria-label="Turn"
          min={1}
          max={last}
          value={turn}
          onInput={(event) => goTo(Number(event.currentTarget.value))}
        />
        {view && <Summary view={view} waiting={data.isAnswering && turn === last} />}
      </div>
      {own.value?.explain.turn === turn && !(data.waiting && turn === last) && (
        <Answer key={turn} data={data} turn={turn} position={own.value.before} />
      )}
      {error !== null && <Failure error={error} again={changed ? other.again : own.again} />}
      {own.value && (
        <WhatIf own={own.value} policies={data.policies} asked={asked} onChange={setAsked} difference={difference} misses={misses} busy={changed && other.busy} />
      )}
      {!own.value && own.busy && <Loading what="Recomputing the call…" />}
      {view && (
        <div class={own.busy || (changed && other.busy) ? "stale" : ""}>
          <BudgetBar view={view} data={data} />
          <Notes view={view} data={data} turn={turn} asked={changed} />
          <Compare data={data} turn={turn} asked={asked} other={beside} onOther={setBeside} />
          <Histories view={view} data={data} window={page.window} onMore={(more) => setPage({ ...page, window: page.window + more })} />
          <Scores view={view} page={page} onPage={setPage} data={data} difference={difference} />
        </div>
      )}
    </div>
  );
}

const turnOf = (said: string | undefined): number | null => (/^\d+$/.test(said ?? "") ? Number(said) : null);

function compare(own: CallView, other: CallView, data: SessionData): Difference {
  const visible = ({ explain }: CallView) => new Set([...numbersIn(explain.complete), ...numbersIn(explain.replaced)]);
  const [before, now] = [visible(own), visible(other)];
  const position = (number: number) => data.results[number]?.position ?? -1;
  return {
    added: [...now].filter((number) => !before.has(number)).map(position),
    removed: [...before].filter((number) => !now.has(number)).map(position),
    after: other.explain.tokens.after - own.explain.tokens.after,
  };
}

function Summary({ view, waiting }: { view: CallView; waiting: boolean }) {
  const { tokens, count, complete, replaced } = view.explain;
  const visible = numbersIn(complete).length + numbersIn(replaced).length;
  return (
    <span class="summary">
      <strong>{number(visible)}</strong> of {plural(count, "result")} shown · <strong>{short(tokens.after)}</strong> of{" "}
      {short(tokens.before)} tokens {tokens.before > tokens.after && <>({percent(1 - tokens.after / tokens.before)} left out)</>}
      {waiting && <span class="tag">not answered yet</span>}
    </span>
  );
}

const SENT: Record<string, string> = {
  whole: "The whole history was sent. The scores show what would have been left out.",
  held_out: "Held out for comparison: the whole history was sent. The scores show what would have been left out.",
};

/** The results of the turn before that a call did not have whole. */
function newestHidden(data: SessionData, turn: number): number[] {
  const newest = data.results.filter((result) => result.turn === turn - 1).map((result) => result.number);
  return newest.filter((number) => [OMITTED, EXCERPT].includes(data.state(turn - 1, number)));
}

function Notes({ view, data, turn, asked }: { view: CallView; data: SessionData; turn: number; asked: boolean }) {
  const hidden = newestHidden(data, turn);
  const { dropped_turns: left, warnings, sent } = view.explain;
  const noted = asked || view.explain.noted;
  const as = SENT[sent];
  const text = view.explain.retained / view.explain.budget;
  const crowded = view.explain.tokens.before > view.explain.tokens.after && text > 0.5;
  if (!left.length && !warnings.length && noted && !as && !crowded && !hidden.length) return null;
  return (
    <ul class="warnings">
      {hidden.length > 0 && (
        <li>
          The newest {hidden.length === 1 ? "result was" : "results were"} not shown whole: <ResultLinks data={data} numbers={hidden} />
        </li>
      )}
      {!noted && <li>Recomputed: what this call was shown was not recorded.</li>}
      {as && <li>{as}</li>}
      {crowded && <li>User and assistant text takes {percent(text)} of the budget and leaves little for results.</li>}
      {left.length > 0 && (
        <li>
          Text alone exceeds the budget: {plural(left.length, "oldest turn")} left whole ({left[0]} to {left[left.length - 1]}).
        </li>
      )}
      {warnings.map((warning) => (
        <li key={warning}>{warning}</li>
      ))}
    </ul>
  );
}
