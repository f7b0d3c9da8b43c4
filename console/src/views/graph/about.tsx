// The panel beside the picture: the chosen result or group, with the results that it used and that used it.
import { number, plural } from "../../format";
import { Closable } from "../../parts/notes";
import type { SessionData } from "../../session";
import type { Group } from "./levels";
import type { Graph, Link, Node } from "./model";

interface Ways {
  data: SessionData;
  /** The whole graph of the session. */
  graph: Graph;
  onChoose: (id: string) => void;
  onValue: (value: string) => void;
  onFocus: (id: string) => void;
  onClose: () => void;
}

const MOST = 50;

export function About(props: Ways & { node: Node; focused: boolean }) {
  const { node, focused, data, graph, onFocus, onClose } = props;
  const sources = graph.links.filter((link) => link.target === node);
  const users = graph.links.filter((link) => link.source === node);
  const isResult = node.result >= 0;
  return (
    <section class="card" aria-label={node.label}>
      <Closable title={node.label} onClose={onClose} />
      <p class="muted">
        turn {node.turn}
        {isResult && <> · {plural(node.tokens, "token")}</>}
        {node.operation && <> · {node.name ? "called in " : ""}message #{node.operation.position}</>}
      </p>
      <p class="links">
        {isResult && <a href={data.to("result", node.position)}>Open the result</a>}
        <a href={data.to("call", Math.max(1, node.turn))}>Call {node.turn}</a>
      </p>
      {sources.length + users.length > 0 && !focused && <button onClick={() => onFocus(node.id)}>Show its lineage alone</button>}
      <Ends title={sources.length ? "Used" : ""} links={sources} end="source" {...props} />
      <Ends title={users.length ? "Used by" : isResult ? "Not used" : ""} links={users} end="target" {...props} />
    </section>
  );
}

function Ends({ title, links, end, onChoose, onValue }: Ways & { title: string; links: Link[]; end: "source" | "target" }) {
  if (!title) return null;
  return (
    <>
      <h3>{title}</h3>
      <ul class="plain">
        {links.slice(0, MOST).map((link) => (
          <li key={link[end].id}>
            <button class="link" onClick={() => onChoose(link[end].id)}>
              {link[end].label}
            </button>
            <small>{link[end].result >= 0 && `, turn ${link[end].turn}`}:</small>{" "}
            {link.values.map((value) => (
              <button key={value} class="mono chip" onClick={() => onValue(value)}>
                {value}
              </button>
            ))}
            {link.count > link.values.length && <small> and {number(link.count - link.values.length)} more</small>}
          </li>
        ))}
      </ul>
      {links.length > MOST && <p class="muted">and {number(links.length - MOST)} more</p>}
    </>
  );
}

export function AboutGroup({ group, onChoose, onClose }: Pick<Ways, "onChoose" | "onClose"> & { group: Group }) {
  return (
    <section class="card" aria-label={group.label}>
      <Closable title={group.label} onClose={onClose} />
      <p class="muted">Double-click it or press Enter to open it.</p>
      <Members nodes={group.members} onChoose={onChoose} />
      {group.members.length > MOST && <p class="muted">and {number(group.members.length - MOST)} more</p>}
    </section>
  );
}

function Members({ nodes, onChoose }: { nodes: Node[]; onChoose: (id: string) => void }) {
  return (
    <ol class="plain">
      {nodes.slice(0, MOST).map((node) => (
        <li key={node.id}>
          <button class="link" onClick={() => onChoose(node.id)}>
            {node.label}
          </button>{" "}
          <small>{node.uses ? plural(node.uses, "use") : node.result >= 0 ? "not used" : ""}</small>
        </li>
      ))}
    </ol>
  );
}

export function MostUsed({ graph, onChoose }: Pick<Ways, "graph" | "onChoose">) {
  const mostUsed = graph.nodes.filter((node) => node.uses && node.result >= 0).sort((a, b) => b.uses - a.uses);
  return (
    <section class="card">
      <h2>Most used results</h2>
      <Members nodes={mostUsed.slice(0, 20)} onChoose={onChoose} />
    </section>
  );
}
