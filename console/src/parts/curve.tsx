// What settings cost against how many steps had all they drew on: a line for each policy, its budgets as points.
import { useState } from "preact/hooks";
import { budgetOf, percent } from "../format";
import { toolColour, useDark } from "../theme";
import type { Line } from "./lines";
import { ticksTo } from "./ticks";

const [WIDTH, HEIGHT, LEFT, BOTTOM, TOP, RIGHT] = [720, 320, 56, 44, 26, 60];
const QUARTERS = [0, 0.25, 0.5, 0.75, 1];

export function Curve({ lines }: { lines: Line[] }) {
  const dark = useDark();
  const [one, setOne] = useState<string | null>(null);
  const all = lines.flatMap((line) => line.points);
  if (all.length === 0) return null;
  const least = Math.min(0.9, ...all.map((point) => point.inView));
  const costs = ticksTo(Math.max(1, ...all.map((point) => point.cost)));
  const most = costs[costs.length - 1];
  const x = (inView: number) => LEFT + ((inView - least) / (1 - least || 1)) * (WIDTH - LEFT - RIGHT);
  const y = (cost: number) => TOP + (1 - cost / most) * (HEIGHT - TOP - BOTTOM);
  return (
    <figure class="curve">
      <svg viewBox={`0 0 ${WIDTH} ${HEIGHT}`} role="img" aria-label="Cost against what was in view; the table below has the same figures">
        <text x={LEFT} y={TOP - 12}>
          cost, of the whole history’s
        </text>
        {costs.map((cost) => (
          <g key={cost}>
            <line class={cost === 1 ? "whole" : "rule"} x1={LEFT} x2={WIDTH - RIGHT} y1={y(cost)} y2={y(cost)} />
            <text x={LEFT - 6} y={y(cost) + 4} text-anchor="end">
              {percent(cost)}
            </text>
          </g>
        ))}
        {QUARTERS.map((part) => (
          <text key={part} x={x(least + (1 - least) * part)} y={HEIGHT - BOTTOM + 18} text-anchor="middle">
            {percent(least + (1 - least) * part)}
          </text>
        ))}
        <text x={WIDTH - RIGHT} y={HEIGHT - 6} text-anchor="end">
          steps that had all they drew on
        </text>
        {lines.map(({ policy, points }, index) => {
          const colour = toolColour(index, dark);
          return (
            <g
              key={policy}
              class={one !== null && one !== policy ? "faint" : undefined}
              onPointerEnter={() => setOne(policy)}
              onPointerLeave={() => setOne(null)}
            >
              <polyline class="line" stroke={colour} points={points.map((point) => `${x(point.inView)},${y(point.cost)}`).join(" ")} />
              {points.map((point) => (
                <circle key={point.budget} cx={x(point.inView)} cy={y(point.cost)} r="4" fill={colour}>
                  <title>{`${policy} with ${budgetOf(point.budget)}: ${percent(point.cost)} of the bill, ${percent(point.inView)} of steps`}</title>
                </circle>
              ))}
            </g>
          );
        })}
      </svg>
      <ul class="legend" aria-label="Policies; point at one to see it alone">
        {lines.map(({ policy }, index) => (
          <li key={policy} onPointerEnter={() => setOne(policy)} onPointerLeave={() => setOne(null)}>
            <i class="swatch" style={{ background: toolColour(index, dark) }} /> {policy}
          </li>
        ))}
      </ul>
    </figure>
  );
}
