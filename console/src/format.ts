// Numbers, times and texts as people read them.

const wholeNumbers = new Intl.NumberFormat("en");
const moment = new Intl.DateTimeFormat("en", { dateStyle: "medium", timeStyle: "short" });

export const number = (value: number): string => wholeNumbers.format(Math.round(value));

/** Return a budget in words: its tokens, or that it is automatic. */
export function budgetOf(budget: number | string, format: (value: number) => string = short): string {
  return typeof budget === "number" ? format(budget) : budget;
}

/** Return a number in short form: 1234 as 1.2K. */
export function short(value: number): string {
  const size = Math.abs(value);
  if (size < 1000) return String(Math.round(value));
  if (size < 999_950) return trim(value / 1000) + "K";
  return size < 999_950_000 ? trim(value / 1e6) + "M" : trim(value / 1e9) + "B";
}

const trim = (value: number): string => (Math.abs(value) < 100 ? value.toFixed(1).replace(/\.0$/, "") : value.toFixed(0));

/** Return a share as a percentage. A share below 1 is never written as 100%. */
export function percent(share: number): string {
  if (share >= 0.995 && share < 1) return `${Math.min(100 * share, 99.9).toFixed(1)}%`;
  return `${(100 * share).toFixed(share > 0 && share < 0.1 ? 1 : 0)}%`;
}

export function dollars(value: number): string {
  const size = Math.abs(value);
  return (value < 0 ? "−$" : "$") + (size >= 100 || size === 0 ? wholeNumbers.format(Math.round(size)) : size.toFixed(size >= 0.995 ? 2 : 4));
}

/** Return the times of a provider's reply in words; empty if they are unknown. */
export const timesOf = ({ first_byte_ms: first, reply_ms: last }: { first_byte_ms: number; reply_ms: number }): string =>
  last ? `first byte after ${decimals(first / 1000, 1)} s, whole answer after ${decimals(last / 1000, 1)} s` : "";

export const decimals = (value: number | null, places = 2): string => (value === null ? "–" : value.toFixed(places));

export const date = (seconds: number): string => moment.format(seconds * 1000);

export function ago(seconds: number, now = Date.now() / 1000): string {
  const past = Math.max(0, now - seconds);
  if (past < 45) return "just now";
  if (past < 3600) return `${Math.max(1, Math.round(past / 60))} min ago`;
  if (past < 86_400) return `${Math.round(past / 3600)} h ago`;
  if (past < 30 * 86_400) return `${Math.round(past / 86_400)} d ago`;
  return date(seconds);
}

export const plural = (count: number, singular: string, many = `${singular}s`): string => `${number(count)} ${count === 1 ? singular : many}`;

/** Return a change with its sign: +1,234 or −56. */
export const signed = (value: number): string => (value < 0 ? "−" : "+") + number(Math.abs(value));

/** Return numbers as ranges: 3–5, 8. */
export function ranges(values: number[]): string {
  const parts: string[] = [];
  for (let i = 0; i < values.length; ) {
    let j = i;
    while (values[j + 1] === values[j] + 1) j++;
    parts.push(i === j ? `${values[i]}` : `${values[i]}–${values[j]}`);
    i = j + 1;
  }
  return parts.join(", ");
}

/** Return how many tokens were free for an omitted result, in the words of `contextrender explain`. */
export function room({ cost, remaining_tokens: free, selected_count: count }: { cost: number; remaining_tokens: number | null; selected_count: number | null }): string {
  if (free === null) return "";
  if (count === null) return `; ${number(free)} tokens were kept free for the next calls`;
  return `: it needs ${number(cost)} tokens, ${number(free)} were free after ${plural(count, "selected result")}`;
}
