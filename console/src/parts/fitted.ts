// A name within some pixels, without its middle: the tools of one server begin alike.

export function fittedName(ctx: CanvasRenderingContext2D, words: string, width: number): string {
  if (ctx.measureText(words).width <= width) return words;
  let left = words.length;
  const short = () => `${words.slice(0, Math.floor(left / 3))}…${words.slice(words.length - Math.ceil((2 * left) / 3))}`;
  while (left > 2 && ctx.measureText(short()).width > width) left--;
  return short();
}
