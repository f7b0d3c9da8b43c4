// What of the graph is wanted, and how it is grouped.
import { Icon } from "../../parts/icon";
import { GROUPINGS, type Wanted } from "./levels";

interface Props {
  summary: string;
  wanted: Wanted;
  /** The node whose lineage is shown, in words. */
  focused: string;
  tools: string[];
  onSet: (name: string, value: string) => void;
}

export function Toolbar({ summary, wanted, focused, tools, onSet }: Props) {
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
      {focused ? (
        <>
          <span>Lineage of {focused}</span>
          <button onClick={() => onSet("focus", "")}>Whole graph</button>
        </>
      ) : (
        <label>
          Tool{" "}
          <select value={wanted.tool} onChange={(event) => onSet("tool", event.currentTarget.value)}>
            <option value="">all</option>
            {[...tools].sort().map((name) => (
              <option key={name}>{name}</option>
            ))}
          </select>
        </label>
      )}
    </div>
  );
}
