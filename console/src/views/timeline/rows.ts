// Which results have a row, and in which order.
import type { SessionData } from "../../session";

export type Order = "created" | "used" | "tokens";

export function chooseRows(data: SessionData, tool: string, order: Order, onlyUsed: boolean): number[] {
  const uses = (result: number) => data.usedAt[result]?.length ?? 0;
  const rows = data.results
    .filter((result) => (!tool || data.tools[result.tool] === tool) && (!onlyUsed || uses(result.number)))
    .map((result) => result.number);
  if (order === "used") rows.sort((a, b) => uses(b) - uses(a) || a - b);
  if (order === "tokens") rows.sort((a, b) => data.results[b].tokens - data.results[a].tokens || a - b);
  return rows;
}
