// A node between the nodes with edges to it and the nodes that its edges lead to. A click opens a node.
import { plural } from "../../format";
import type { EdgeView, NodeView } from "../../types";

const BOX = { width: 250, height: 26 };
const [ROW, GAP] = [34, 150];

/** The address of a node. */
export const at = (id: string): string => `#/store/${encodeURIComponent(id)}`;

export function Neighbours({ node }: { node: NodeView }) {
  const incoming = node.edges.filter((edge) => !edge.outgoing);
  const outgoing = node.edges.filter((edge) => edge.outgoing);
  const height = Math.max(1, incoming.length, outgoing.length) * ROW + 8;
  const middle = height / 2;
  // A side without edges has no column.
  const left = incoming.length ? BOX.width + GAP : 0;
  const right = left + BOX.width + GAP;
  const description = `${node.label}: ${plural(incoming.length, "edge")} in, ${plural(outgoing.length, "edge")} out on this page`;
  return (
    <div class="scroll neighbours" tabIndex={0} role="region" aria-label="Neighbourhood">
      <svg width={(outgoing.length ? right : left) + BOX.width + 2} height={height} role="group" aria-label={description}>
        <marker id="head" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="7" markerHeight="7" orient="auto">
          <path d="M0 0 8 4 0 8z" />
        </marker>
        {[incoming, outgoing].map((edges) =>
          edges.map((edge, place) => (
            <Neighbour
              key={`${edge.kind} ${edge.outgoing} ${edge.id}`}
              edge={edge}
              middle={middle}
              left={left}
              y={middle + (place - (edges.length - 1) / 2) * ROW}
            />
          )),
        )}
        <Box kind={`here ${node.kind}`} label={node.label} x={left} y={middle} />
      </svg>
    </div>
  );
}

function Neighbour({ edge, middle, left, y }: { edge: EdgeView; middle: number; left: number; y: number }) {
  const right = left + BOX.width + GAP;
  const [from, to] = edge.outgoing ? [[left + BOX.width, middle], [right, y]] : [[BOX.width, y], [left, middle]];
  const half = (from[0] + to[0]) / 2;
  const box = <Box kind={edge.end} label={edge.end ? edge.label : "not there"} x={edge.outgoing ? right : 0} y={y} />;
  return (
    <>
      <path class={`edge ${edge.kind}`} d={`M${from} C${half} ${from[1]} ${half} ${to[1]} ${to}`} marker-end="url(#head)">
        <title>{edge.values.join(", ")}</title>
      </path>
      <text class="kind" x={edge.outgoing ? right - 12 : BOX.width + 6} y={y - 4} text-anchor={edge.outgoing ? "end" : "start"}>
        {edge.kind}
      </text>
      {edge.end ? <a href={at(edge.id)}>{box}</a> : box}
    </>
  );
}

function Box({ kind, label, x, y }: { kind: string; label: string; x: number; y: number }) {
  return (
    <g class={kind} transform={`translate(${x} ${y - BOX.height / 2})`}>
      <rect {...BOX} rx="6" />
      <foreignObject {...BOX}>
        <div class="clip">{label}</div>
      </foreignObject>
      <title>{label}</title>
    </g>
  );
}
