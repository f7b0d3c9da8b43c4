// What of the graph is wanted, and how it is grouped.
import { Icon } from "../../parts/icon";
import { GROUPINGS, type Wanted } from "./scenes";

interface Props {
  summary: string;
  wanted: Wanted;
  /** The node whose lineage is shown, in words. */
  focused: string;
  tools: string[];
  onSet: (name: string, value: string) => void;
}

/** More than any lineage has. */
export const ALL_STEPS = 1_000_000;
const STEPS = [1, 2, 3, 5, ALL_STEPS];

export function Toolbar(props: Props) {
  const { summary, wanted, focused, onSet } = props;
  return (
    <div class="toolbar">
      <span class="summary" role="status">
        {summary}
      </span>
      <span class="spring" />
      <form
        class="search"
        onSubmit={(event) => {
          event.preventDefault();
          onSet("value", String(new FormData(event.currentTarget).get("value")).trim());
        }}
      >
        <Icon name="search" />
        <input type="search" name="value" placeholder="Trace a value" aria-label="Trace a value" />
      </form>
      <label>
        Groups by{" "}
        <select value={wanted.grouping} onChange={(event) => onSet("group", event.currentTarget.value)}>
          {GROUPINGS.map((name) => (
            <option key={name}>{name}</option>
          ))}
        </select>
      </label>
      {focused ? <Focused {...props} /> : <Filters {...props} />}
    </div>
  );
}

function Filters({ wanted, tools, onSet }: Props) {
  return (
    <>
      <label>
        Tool{" "}
        <select value={wanted.tool} onChange={(event) => onSet("tool", event.currentTarget.value)}>
          <option value="">all</option>
          {[...tools].sort().map((name) => (
            <option key={name}>{name}</option>
          ))}
        </select>
      </label>
      <label class="check">
        <input type="checkbox" checked={wanted.unused} onChange={(event) => onSet("unused", event.currentTarget.checked ? "1" : "")} /> unused results
      </label>
    </>
  );
}

function Focused({ wanted, focused, onSet }: Props) {
  return (
    <>
      <label>
        Lineage of {focused}{" "}
        <select value={String(wanted.steps)} onChange={(event) => onSet("steps", event.currentTarget.value)}>
          {STEPS.map((steps) => (
            <option key={steps} value={String(steps)}>
              {steps === ALL_STEPS ? "all of it" : steps === 1 ? "1 step" : `${steps} steps`}
            </option>
          ))}
        </select>
      </label>
      <button onClick={() => onSet("focus", "")}>Whole graph</button>
    </>
  );
}
