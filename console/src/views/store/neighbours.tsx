// A node between those whose edges lead to it and those that its edges lead to; each opens its own.
import { plural } from "../../format";
import type { EdgeView, NodeView } from "../../types";

const ROW = 34;
const BOX = { width: 250, height: 26 };
const GAP = 150;
const WIDTH = 3 * BOX.width + 2 * GAP;
const LONGEST = 34;

interface Props {
  node: NodeView;
  href: (id: string) => string;
}

export function Neighbours({ node, href }: Props) {
  const incoming = node.edges.filter((edge) => !edge.outgoing);
  const outgoing = node.edges.filter((edge) => edge.outgoing);
  const rows = Math.max(1, incoming.length, outgoing.length);
  const height = rows * ROW + 8;
  const middle = height / 2;
  const x = (side: number) => side * (BOX.width + GAP);
  const y = (place: number, count: number) => middle + (place - (count - 1) / 2) * ROW;
  const said = `${node.label}: ${plural(incoming.length, "edge")} in, ${plural(outgoing.length, "edge")} out on this page`;
  return (
    <div class="scroll neighbours" tabIndex={0} role="region" aria-label="Neighbourhood">
      <svg viewBox={`0 0 ${WIDTH} ${height}`} width={WIDTH} height={height} role="group" aria-label={said}>
        <defs>
          <marker id="head" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="7" markerHeight="7" orient="auto">
            <path d="M0 0 8 4 0 8z" />
          </marker>
        </defs>
        {incoming.map((edge, place) => (
          <Joined key={keyOf(edge)} edge={edge} from={[BOX.width, y(place, incoming.length)]} to={[x(1), middle]} />
        ))}
        {outgoing.map((edge, place) => (
          <Joined key={keyOf(edge)} edge={edge} from={[x(1) + BOX.width, middle]} to={[x(2), y(place, outgoing.length)]} />
        ))}
        {incoming.map((edge, place) => (
          <Box key={keyOf(edge)} edge={edge} x={0} y={y(place, incoming.length)} href={href} />
        ))}
        {outgoing.map((edge, place) => (
          <Box key={keyOf(edge)} edge={edge} x={x(2)} y={y(place, outgoing.length)} href={href} />
        ))}
        <g class={`node here ${node.kind}`} transform={`translate(${x(1)} ${middle - BOX.height / 2})`}>
          <rect {...BOX} rx="6" />
          <text x="10" y="17">
            {cut(node.label)}
          </text>
          <title>{node.label}</title>
        </g>
      </svg>
    </div>
  );
}

const keyOf = (edge: EdgeView): string => `${edge.kind} ${edge.outgoing} ${edge.id}`;

function Joined({ edge, from, to }: { edge: EdgeView; from: [number, number]; to: [number, number] }) {
  const half = (from[0] + to[0]) / 2;
  const at = edge.outgoing ? to : from;
  return (
    <g class={`edge ${edge.kind}`}>
      <path d={`M${from} C${half} ${from[1]} ${half} ${to[1]} ${to}`} marker-end="url(#head)" />
      <text x={edge.outgoing ? at[0] - 12 : at[0] + 6} y={at[1] - 4} text-anchor={edge.outgoing ? "end" : "start"}>
        {edge.kind}
      </text>
      {edge.values.length > 0 && <title>{edge.values.join(", ")}</title>}
    </g>
  );
}

function Box({ edge, x, y, href }: { edge: EdgeView; x: number; y: number; href: (id: string) => string }) {
  const box = (
    <g class={`node ${edge.end}`} transform={`translate(${x} ${y - BOX.height / 2})`}>
      <rect {...BOX} rx="6" />
      <text x="10" y="17">
        {edge.end ? cut(edge.label) : "not there"}
      </text>
      <title>{edge.label}</title>
    </g>
  );
  return edge.end ? <a href={href(edge.id)}>{box}</a> : box;
}

const cut = (text: string): string => (text.length > LONGEST ? `${text.slice(0, LONGEST - 1)}…` : text);
