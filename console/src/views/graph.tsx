// The reuse graph: results, the results that used them, and the used values.
import type { ComponentChildren } from "preact";
import { useEffect, useMemo, useState } from "preact/hooks";
import { number, plural } from "../format";
import { submitted, ToolChoice } from "../parts/controls";
import { Icon } from "../parts/icon";
import { useReport } from "../parts/request";
import { Empty, Failure, Loading } from "../parts/notes";
import { Trace } from "../parts/trace";
import { address, go, type Options, useOption } from "../route";
import type { ViewProps } from "../session";
import type { GraphView } from "../types";
import { About, AboutGroup, MostUsed } from "./graph/about";
import { holder, type Scene, scenesOf, type Wanted } from "./graph/levels";
import { type Graph as ReuseGraph, graphOf, SAID, TEXT, usesOf, withoutCommon } from "./graph/model";
import { Picture } from "./graph/picture";

export function Graph({ place, data }: ViewProps) {
  const graphReport = useReport<GraphView>("reuse_graph", data.branch);
  const view = graphReport.value;
  const [common, setCommon] = useOption<string>(place, "common", "");
  const [all, rare] = useMemo(() => [view, view && withoutCommon(view)].map((some) => some && graphOf(some, (name) => data.toolId(name))), [view]);
  useEffect(() => {
    if (view && data.last > view.turn_count) graphReport.again();
  }, [data.last]);
  if (graphReport.error !== null && !view) return <Failure error={graphReport.error} again={graphReport.again} />;
  if (!all || !rare) return <Loading what="Loading the graph…" />;
  const hidden = usesOf(all.links).size - usesOf(rare.links).size;
  return (
    <Drawn place={place} data={data} graph={common ? all : rare}>
      {hidden > 0 && (
        <label class="check" title="Values in many turns: names, statuses, numbers that the agent knows anyway">
          <input type="checkbox" checked={common !== ""} onChange={(event) => setCommon(event.currentTarget.checked ? "1" : "")} />{" "}
          {plural(hidden, "use")} of common values
        </label>
      )}
    </Drawn>
  );
}

function Drawn({ place, data, graph, children }: ViewProps & { graph: ReuseGraph; children: ComponentChildren }) {
  const [scene, setScene] = useState<Scene | null>(null);
  const { options } = place;
  const selection: Wanted = { tool: options.tool ?? "", focus: options.focus ?? "" };
  const subject = JSON.stringify(selection);
  const scenes = useMemo(() => scenesOf(graph, selection), [graph, subject]);
  const set = (changes: Options) => {
    const all = Object.entries({ ...options, ...changes }).filter(([, value]) => value !== "");
    go(address(place.session, place.view, place.item, place.branch, Object.fromEntries(all)), true);
  };
  const [chosenId, value] = [options.node ?? null, options.value ?? null];
  const choose = (id: string | null) => set({ node: id ?? "" });
  const focus = (id: string) => set({ focus: id, node: id });
  const node = graph.nodes.find((candidate) => candidate.id === chosenId);
  const group = scene && chosenId && !node ? holder(scene, chosenId) : undefined;
  const focused = graph.nodes.find((candidate) => candidate.id === selection.focus)?.label ?? selection.focus;
  const ways = { data, graph, onChoose: choose, onFocus: focus, onValue: (next: string) => set({ value: next }), onClose: () => choose(null) };
  return (
    <div class="graph">
      <div class="split">
        {scenes.graph.nodes.length === 0 ? (
          <Nothing selection={selection} />
        ) : (
          <Picture scenes={scenes} subject={subject} chosen={chosenId} value={value} onChoose={choose} onFocus={focus} onScene={setScene} />
        )}
        <aside>
          {value !== null && <Trace data={data} value={value} onClose={() => set({ value: "" })} />}
          {node && <About node={node} focused={node.id === selection.focus} {...ways} />}
          {group && <AboutGroup group={group} {...ways} />}
          {!node && !group && value === null && <MostUsed {...ways} graph={scenes.graph} />}
        </aside>
      </div>
      <div class="toolbar">
        <span class="summary" role="status">
          {summaryOf(scenes.graph, scene)}
        </span>
        {children}
        <span class="spring" />
        <form class="search" onSubmit={submitted((field) => set({ value: field("value") }))}>
          <Icon name="search" />
          <input type="search" name="value" placeholder="Trace a value" aria-label="Trace a value" />
        </form>
        {focused ? (
          <>
            <span>Lineage of {focused}</span>
            <button onClick={() => set({ focus: "" })}>Whole graph</button>
          </>
        ) : (
          <ToolChoice tools={data.tools} value={selection.tool} onChoose={(tool) => set({ tool })} />
        )}
      </div>
    </div>
  );
}

function Nothing({ selection: { focus, tool } }: { selection: Wanted }) {
  if (focus) return <Empty title="There is no such result in this session" />;
  return (
    <Empty title={tool ? "No result of this tool was used" : "No result was used yet"}>
      <p>A link appears when an assistant message or a tool call repeats a value of an earlier result.</p>
    </Empty>
  );
}

function summaryOf({ nodes, links }: ReuseGraph, scene: Scene | null): string {
  const results = nodes.filter((node) => node.result >= 0).length;
  const texts = nodes.filter((node) => node.tool === TEXT).length;
  const [uses, own] = [usesOf(links).size, usesOf(links.filter((link) => link.source.tool !== SAID)).size];
  const said = uses > own ? ` (${number(uses - own)} only of values that the user said)` : "";
  const counts = `${plural(results, "result")}, ${plural(texts, "text")}, ${plural(uses, "use")}${said}`;
  return scene && scene.groups.length < nodes.length ? `${counts}, drawn as ${plural(scene.groups.length, "node")}` : counts;
}
