// The colour theme (light, dark, or the system's), and the colours of tools.
import { announceChange, preference } from "./preferences";

const system = (): MediaQueryList => matchMedia("(prefers-color-scheme: dark)");

export const isDark = (): boolean => (preference("theme") ?? (system().matches ? "dark" : "light")) === "dark";

/** Apply the theme to the style sheet before anything is drawn. */
export function followTheme(): void {
  const apply = () => (document.documentElement.dataset.theme = isDark() ? "dark" : "light");
  addEventListener("storage", apply);
  system().addEventListener("change", announceChange);
  apply();
}

/** Return the hue of a tool: the same in all views, and far from the hues of its neighbours. */
export function toolColour(index: number, dark: boolean, alpha = 1): string {
  const hue = (212 + index * 137.508) % 360;
  return `hsl(${hue.toFixed(0)} ${dark ? "58% 64%" : "54% 46%"} / ${alpha})`;
}
