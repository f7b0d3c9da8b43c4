// Light, dark, or as the system has it; and the colours of tools.
import { announceChange, preference } from "./preferences";

const system = (): MediaQueryList => matchMedia("(prefers-color-scheme: dark)");

export const isDark = (): boolean => (preference("theme") ?? (system().matches ? "dark" : "light")) === "dark";

/** Has the style sheet's colours follow, before anything is drawn with them. */
export function followTheme(): void {
  const apply = () => (document.documentElement.dataset.theme = isDark() ? "dark" : "light");
  addEventListener("storage", apply);
  system().addEventListener("change", announceChange);
  apply();
}

/** The hue of a tool: the same wherever the tool appears, far from its neighbours'. */
export function toolColour(index: number, dark: boolean, alpha = 1): string {
  const hue = (212 + index * 137.508) % 360;
  return `hsl(${hue.toFixed(0)} ${dark ? "58% 64%" : "54% 46%"} / ${alpha})`;
}
