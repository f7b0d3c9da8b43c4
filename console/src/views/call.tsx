// One model call: its budget, its prompt, and the reasons. With a setting in the address it is recomputed.
import { useMemo, useRef, useState } from "preact/hooks";
import { number, percent, plural, short, signed } from "../format";
import { useEvent } from "../preferences";
import { Icon } from "../parts/icon";
import { useReport } from "../parts/request";
import { Empty, Failure, Loading } from "../parts/notes";
import { ownPrices } from "../parts/prices";
import { ResultLinks, TurnInput } from "../parts/links";
import { useSort } from "../parts/table";
import { go, type Options } from "../route";
import { numbersIn, OMITTED, EXCERPT, type SessionData, type ViewProps } from "../session";
import type { CallView } from "../types";
import { Answer } from "./call/answer";
import { BudgetBar } from "./call/budget";
import { Compare } from "./call/compare";
import { Histories } from "./call/histories";
import { type Difference, FIRST, type Page, Scores } from "./call/scores";

export function Call({ place, data }: ViewProps) {
  const last = data.last;
  const turn = place.item ?? last;
  const isCall = turn >= 1 && turn <= last;
  const beside = turnOf(place.options.with);
  const changed = data.setting !== null;
  const base = { ...data.branch, turn };
  const [page, setPage] = useState<Page>(FIRST);
  const [sort, setSort] = useSort(place, "order");
  const fields = { ...base, sort: sort!.key, descending: sort!.down, rows: page.rows, window: page.window, prices: ownPrices() };
  const waits = data.waitsFor(turn);
  const recordedCall = useReport<CallView>("get_call", isCall && (changed || !waits) ? fields : null);
  const other = useReport<CallView>("get_call", changed && isCall && !waits ? { ...fields, ...data.setting } : null);
  const shownCall = changed ? (other.value?.explain.turn === turn ? other.value : null) : recordedCall.value;
  const view = shownCall ?? recordedCall.value;
  const error = changed ? other.error : recordedCall.error;
  const withOptions = (compared: number | null): Options => ({ ...(sort!.key === "order" ? {} : { sort: place.options.sort }), ...(compared === null ? {} : { with: String(compared) }) });
  // Keys may be pressed faster than the view is drawn.
  const here = useRef(place);
  here.current = place;
  const move = (by: number) => goTo((here.current.item ?? last) + by);
  const goTo = (turnNumber: number) => {
    const item = Math.min(last, Math.max(1, turnNumber));
    here.current = { ...here.current, item };
    go(data.to("call", item, withOptions(beside)), true);
  };
  useEvent("keydown", (event) => {
    if (event.target instanceof Element && event.target.closest("input, select, textarea, .scroll, [role=application]")) return;
    if (event.altKey || event.ctrlKey || event.metaKey) return;
    if (event.key === "ArrowLeft") move(-1);
    if (event.key === "ArrowRight") move(1);
  });
  const difference = useMemo(() => (changed && shownCall && recordedCall.value ? compare(recordedCall.value, shownCall, data) : null), [changed, shownCall, recordedCall.value]);
  if (!isCall) {
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
      {recordedCall.value?.explain.turn === turn && !(data.waiting && turn === last) && (
        <Answer key={turn} data={data} turn={turn} position={recordedCall.value.history_messages} price={recordedCall.value.price} />
      )}
      {error !== null && <Failure error={error} again={changed ? other.again : recordedCall.again} />}
      {difference && (
        <p class="verdict" role="status">
          {differenceIn(difference)} <a href={data.to("timeline")}>Which setting?</a>
        </p>
      )}
      {(changed ? !shownCall : !recordedCall.value) && (waits || recordedCall.busy || other.busy) && <Loading what={waits ? `${number(data.loaded)} of ${plural(last, "turn")} replayed` : "Recomputing the call…"} />}
      {view && (
        <div class={recordedCall.busy || (changed && (other.busy || !shownCall)) ? "stale" : ""}>
          <BudgetBar view={view} data={data} />
          <Notes view={view} data={data} turn={turn} asked={changed} />
          <Compare data={data} turn={turn} price={view.price} other={beside} onOther={(compared) => go(data.to("call", turn, withOptions(compared)), true)} />
          <Histories view={view} data={data} window={page.window} onMore={(more) => setPage({ ...page, window: page.window + more })} />
          <Scores view={view} page={page} onPage={setPage} sort={sort} onSort={setSort} data={data} difference={difference} />
        </div>
      )}
    </div>
  );
}

function differenceIn({ added, removed, after }: Difference): string {
  if (!added.length && !removed.length && !after) return "The prompt of this turn would have been the same.";
  return `The prompt of this turn would have had ${plural(added.length, "more result")} and been without ${number(removed.length)} that it had: ${signed(after)} tokens.`;
}

const turnOf = (text: string | undefined): number | null => (/^\d+$/.test(text ?? "") ? Number(text) : null);

function compare(recordedCall: CallView, other: CallView, data: SessionData): Difference {
  const visible = ({ explain }: CallView) => new Set([...numbersIn(explain.complete), ...numbersIn(explain.substitutes)]);
  const [before, now] = [visible(recordedCall), visible(other)];
  const position = (number: number) => data.results[number]?.position ?? -1;
  return {
    added: [...now].filter((number) => !before.has(number)).map(position),
    removed: [...before].filter((number) => !now.has(number)).map(position),
    after: other.explain.tokens_after - recordedCall.explain.tokens_after,
  };
}

function Summary({ view, waiting }: { view: CallView; waiting: boolean }) {
  const { tokens_before: before, tokens_after: after, count, complete, substitutes } = view.explain;
  const visible = numbersIn(complete).length + numbersIn(substitutes).length;
  return (
    <span class="summary">
      <strong>{number(visible)}</strong> of {plural(count, "result")} shown · <strong>{short(after)}</strong> of{" "}
      {short(before)} tokens {before > after && <>({percent(1 - after / before)} omitted)</>}
      {waiting && <span class="tag">not answered yet</span>}
    </span>
  );
}

const DELIVERIES: Record<string, string> = {
  full: "The full history was sent. The scores show what would have been omitted.",
  holdout: "Held out for comparison: the full history was sent. The scores show what would have been omitted.",
};

/** Return the results of the turn before that a call did not show complete. */
function newestHidden(data: SessionData, turn: number): number[] {
  const newest = data.results.filter((result) => result.turn === turn - 1).map((result) => result.number);
  return newest.filter((number) => [OMITTED, EXCERPT].includes(data.state(turn - 1, number)));
}

function Notes({ view, data, turn, asked }: { view: CallView; data: SessionData; turn: number; asked: boolean }) {
  const hidden = newestHidden(data, turn);
  const { dropped_turns: left, warnings, delivery } = view.explain;
  const recorded = asked || view.explain.recorded;
  const as = DELIVERIES[delivery];
  const text = view.explain.text_tokens / view.explain.budget;
  const crowded = view.explain.tokens_before > view.explain.tokens_after && text > 0.5;
  const { status = 0, error = "" } = (!asked && data.turns[turn - 1]) || {};
  const failure = status >= 400 ? `The provider failed this call with status ${status}${error && ` (${error})`}.` : error && `The provider’s reply ended with the error ${error}.`;
  if (!left.length && !warnings.length && recorded && !as && !crowded && !hidden.length && !failure) return null;
  return (
    <ul class="warnings">
      {hidden.length > 0 && (
        <li>
          The newest {hidden.length === 1 ? "result was" : "results were"} not shown complete: <ResultLinks data={data} numbers={hidden} />
        </li>
      )}
      {failure && <li>{failure}</li>}
      {!recorded && <li>Recomputed, because this call’s prompt was not recorded.</li>}
      {as && <li>{as}</li>}
      {crowded && <li>User and assistant text takes {percent(text)} of the budget and leaves little for results.</li>}
      {left.length > 0 && (
        <li>
          Text alone exceeds the budget, so {plural(left.length, "oldest turn")} were dropped ({left[0]} to {left[left.length - 1]}).
        </li>
      )}
      {warnings.map((warning) => (
        <li key={warning}>{warning}</li>
      ))}
    </ul>
  );
}
