// What settings cost against how many steps had all they drew on: a line for each policy, its budgets as points.
import { budgetOf, percent } from "../format";
import { groupBy } from "../group";
import { toolColour, isDark } from "../theme";
import type { AdvisedView } from "../types";
import { ticksOf } from "./chart";
import { Legend } from "./zoom";

const [WIDTH, HEIGHT, LEFT, BOTTOM, TOP, RIGHT] = [720, 320, 56, 44, 26, 60];

export function Curve({ options }: { options: AdvisedView[] }) {
  const dark = isDark();
  const lines = linesOf(options);
  const all = lines.flatMap(([, points]) => points);
  if (all.length === 0) return null;
  const least = Math.min(0.9, ...all.map(({ inView }) => inView));
  const most = Math.max(1, ...all.map(({ cost }) => cost));
  const x = (inView: number) => LEFT + ((inView - least) / (1 - least)) * (WIDTH - LEFT - RIGHT);
  const y = (cost: number) => TOP + (1 - cost / most) * (HEIGHT - TOP - BOTTOM);
  return (
    <figure class="card chart curve">
      <svg viewBox={`0 0 ${WIDTH} ${HEIGHT}`} role="img" aria-label="Cost against what was in view; the table below has the same figures">
        <text x={LEFT} y={TOP - 12}>
          cost, of the whole history’s
        </text>
        {ticksOf(0, most).map((cost) => (
          <g key={cost}>
            <path class="rule" d={`M${LEFT} ${y(cost)}H${WIDTH - RIGHT}`} />
            <text x={LEFT - 6} y={y(cost) + 4} text-anchor="end">
              {percent(cost)}
            </text>
          </g>
        ))}
        {ticksOf(least, 1).map((inView) => (
          <text key={inView} x={x(inView)} y={HEIGHT - BOTTOM + 18} text-anchor="middle">
            {percent(inView)}
          </text>
        ))}
        <text x={WIDTH - RIGHT} y={HEIGHT - 6} text-anchor="end">
          steps that had all they drew on
        </text>
        {lines.map(([policy, points], index) => (
          <g key={policy} class="policy" style={{ stroke: toolColour(index, dark) }}>
            <polyline points={points.map(({ inView, cost }) => `${x(inView)},${y(cost)}`).join(" ")} />
            {points.map(({ budget, inView, cost }) => (
              <circle key={budget} cx={x(inView)} cy={y(cost)} r="4">
                <title>{`${policy} with ${budgetOf(budget)}: ${percent(cost)} of the bill, ${percent(inView)} of steps`}</title>
              </circle>
            ))}
          </g>
        ))}
      </svg>
      <Legend signs={lines.map(([name], index) => ({ name, colour: toolColour(index, dark) }))} />
    </figure>
  );
}

/** The options that say both, a line for each policy from the least in view on. */
export function linesOf(options: AdvisedView[]) {
  const points = options.flatMap(({ policy, budget, cost, hidden }) =>
    cost === null || hidden === null ? [] : { policy, budget, inView: 1 - hidden, cost },
  );
  const lines = [...groupBy(points, ({ policy }) => policy)];
  return lines.map(([policy, some]) => [policy, some.sort((a, b) => a.inView - b.inView)] as const);
}
