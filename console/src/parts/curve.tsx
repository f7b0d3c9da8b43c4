// What settings cost against how many steps had all they drew on: a line for each policy, its budgets as points.
import { percent, short } from "../format";
import { toolColour, useDark } from "../theme";
import type { Line } from "./lines";

const [WIDTH, HEIGHT, LEFT, BOTTOM, TOP, RIGHT] = [720, 320, 56, 44, 14, 60];

export function Curve({ lines }: { lines: Line[] }) {
  const dark = useDark();
  const all = lines.flatMap((line) => line.points);
  if (all.length === 0) return null;
  const least = Math.min(0.9, ...all.map((point) => point.inView));
  const most = Math.max(1, ...all.map((point) => point.cost));
  const x = (inView: number) => LEFT + ((inView - least) / (1 - least || 1)) * (WIDTH - LEFT - RIGHT);
  const y = (cost: number) => TOP + (1 - cost / most) * (HEIGHT - TOP - BOTTOM);
  const ticks = [0, 0.25, 0.5, 0.75, 1];
  return (
    <figure class="curve">
      <svg viewBox={`0 0 ${WIDTH} ${HEIGHT}`} role="img" aria-label="Cost against what was in view; the table below has the same figures">
        {ticks.map((part) => (
          <g key={part}>
            <line class="rule" x1={LEFT} x2={WIDTH - RIGHT} y1={y(most * part)} y2={y(most * part)} />
            <text x={LEFT - 6} y={y(most * part) + 4} text-anchor="end">
              {percent(most * part)}
            </text>
            <text x={x(least + (1 - least) * part)} y={HEIGHT - BOTTOM + 18} text-anchor="middle">
              {percent(least + (1 - least) * part)}
            </text>
          </g>
        ))}
        <text x={(LEFT + WIDTH - RIGHT) / 2} y={HEIGHT - 6} text-anchor="middle">
          steps that had all they drew on
        </text>
        {lines.map(({ policy, points }, index) => {
          const colour = toolColour(index, dark);
          return (
            <g key={policy}>
              <polyline class="line" stroke={colour} points={points.map((point) => `${x(point.inView)},${y(point.cost)}`).join(" ")} />
              {points.map((point) => (
                <circle key={point.budget} cx={x(point.inView)} cy={y(point.cost)} r="4" fill={colour}>
                  <title>{`${policy} with ${short(point.budget)}: ${percent(point.cost)} of the bill, ${percent(point.inView)} of steps`}</title>
                </circle>
              ))}
            </g>
          );
        })}
      </svg>
      <ul class="legend">
        {lines.map(({ policy }, index) => (
          <li key={policy}>
            <i class="swatch" style={{ background: toolColour(index, dark) }} /> {policy}
          </li>
        ))}
      </ul>
    </figure>
  );
}
