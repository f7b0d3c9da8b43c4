// The stored Jac graph: a node, its fields, and links to its neighbours.
import { useEffect, useState } from "preact/hooks";
import { date, number, plural } from "../format";
import { submitted } from "../parts/controls";
import { Copy } from "../parts/copy";
import { Icon } from "../parts/icon";
import { useReport } from "../parts/request";
import { Failure, Loading } from "../parts/notes";
import { type Column, Table, text } from "../parts/table";
import { go } from "../route";
import type { DegreeView, EdgeView, FieldView, NodeView } from "../types";

const SESSION = "session:";

/** The address of a node. */
const at = (id: string): string => `#/store/${encodeURIComponent(id)}`;

export function Store({ id }: { id: string }) {
  const [kind, setKind] = useState("");
  const [start, setStart] = useState(0);
  useEffect(() => {
    setKind("");
    setStart(0);
  }, [id]);
  const fields = id.startsWith(SESSION) ? { session: id.slice(SESSION.length) } : { id };
  const { value, error, busy } = useReport<NodeView>("get_node", { ...fields, kind, start });
  const choose = (next: string) => {
    setKind(next);
    setStart(0);
  };
  return (
    <section class="page store">
      <div class="toolbar">
        <h1>Graph store</h1>
        <a href="#/store">Root</a>
        <form class="search" onSubmit={submitted((field) => go(at(field("node"))))}>
          <Icon name="search" />
          <input name="node" aria-label="A node’s id" placeholder="A node’s id or session:NAME" />
        </form>
      </div>
      {error !== null && <Failure error={error} />}
      {error === null && value === null && busy && <Loading what="Reading the node…" />}
      {error === null && value !== null && (
        <>
          <h2>
            {value.label} <span class="tag">{value.kind}</span>
          </h2>
          <p class="mono">
            {value.id} <Copy text={value.id} title="Copy id" />
          </p>
          <Degrees node={value} kind={kind} onKind={choose} />
          <Table label="Edges" columns={EDGES} rows={value.edges} keyOf={(edge) => edge.kind + edge.outgoing + edge.id} named={false} />
          {(start > 0 || value.next !== null) && (
            <nav class="pager" aria-label="Pages of edges">
              <button disabled={start === 0} onClick={() => setStart(0)}>
                First
              </button>
              <button disabled={value.next === null} onClick={() => setStart(value.next!)}>
                More edges
              </button>
            </nav>
          )}
          {value.fields.length === 0 ? (
            <p class="hint">It has no fields.</p>
          ) : (
            <Table label="Fields" columns={FIELDS} rows={value.fields} keyOf={({ name }) => name} />
          )}
        </>
      )}
    </section>
  );
}

const FIELDS: Column<FieldView>[] = [
  text("Field", ({ name }) => name),
  text("Type", ({ kind }) => kind),
  text("Value", ({ name, kind, text, length }) => (
    <>
      {kind === "bytes" ? plural(length, "byte") : text}
      {kind !== "bytes" && length > text.length && <small> … {number(length)} characters in all</small>}
      {name.endsWith("_at") && Number(text) > 1e9 && <small> {date(Number(text))}</small>}
    </>
  ), { kind: "mono cut" }),
];
const EDGES: Column<EdgeView>[] = [
  text("Edge", ({ outgoing, kind }) => `${outgoing ? "→" : "←"} ${kind}`),
  text("Node", ({ id, end, label }) => (
    <>
      {end ? <a href={at(id)}>{label}</a> : "not there"} <span class="tag">{end}</span>
    </>
  )),
  text("Values", ({ values }) => values.join(", "), { kind: "mono" }),
];

function Degrees({ node, kind, onKind }: { node: NodeView; kind: string; onKind: (kind: string) => void }) {
  if (node.kind === "Root") return <p class="hint">The newest sessions; the others by their name, session:NAME.</p>;
  const degreeText = (degree: DegreeView) => `${degree.outgoing ? "→" : "←"} ${degree.kind} ${number(degree.count)}`;
  return (
    <p class="toolbar" role="group" aria-label="Edges by type">
      {node.degrees.map((degree) => (
        <button key={degreeText(degree)} aria-pressed={kind === degree.kind} onClick={() => onKind(kind === degree.kind ? "" : degree.kind)}>
          {degreeText(degree)}
        </button>
      ))}
    </p>
  );
}
