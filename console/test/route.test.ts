import { expect, test } from "vitest";
import { address, readPlace, searchAddress, type View, VIEWS } from "../src/route";
import { optionsOf, settingOf } from "../src/setting";

test("an address survives a round trip", () => {
  for (const view of Object.keys(VIEWS) as View[])
    for (const [item, branch] of [[null, null], [7, null], [0, 2], [null, 1]] as const) {
      const options = { tool: "a&b=c", used: "1" };
      const place = { page: "session", session: "a/b ?#%ü", view, item, branch, options, node: "" };
      expect(readPlace(address("a/b ?#%ü", view, item, branch, options))).toEqual(place);
      expect(readPlace(address("a/b ?#%ü", view, item, branch))).toEqual({ ...place, options: {} });
    }
});

test("an invalid address opens the session list", () => {
  expect(readPlace("")).toMatchObject({ page: "sessions", session: "", item: null, branch: null });
  expect(readPlace("#/session/")).toMatchObject({ page: "sessions" });
  expect(readPlace("#/overall")).toMatchObject({ page: "overall", node: "" });
  expect(readPlace("#/store/session%3Aa%2Fb")).toMatchObject({ page: "store", node: "session:a/b", session: "session:a/b" });
});

test("invalid parts of an address are ignored", () => {
  expect(readPlace("#/session/s/nowhere/x?branch=-1")).toEqual({ page: "session", session: "s", view: "misses", item: null, branch: null, options: {}, node: "" });
  expect(readPlace("#/session/%E0%A4%A/call/3")).toMatchObject({ session: "%E0%A4%A", view: "call", item: 3 });
});

test("settings survive a round trip through an address", () => {
  const own = { policy: "cache_aware", budget: "auto" };
  const setting = { policy: "prune", budget: 900 };
  expect(settingOf(readPlace(address("s", "call", 3, null, optionsOf(setting))).options, own)).toEqual(setting);
  expect(settingOf({ budget: "many" }, own)).toEqual({ policy: "cache_aware", budget: "many" });
  expect(settingOf({ tool: "t" }, own)).toBe(null);
});

test("a search is in its address", () => {
  const asked = { text: "a&b = #1 é", session: "run/1", errors: "1" };
  expect(readPlace(searchAddress({ ...asked, tool: "" }))).toMatchObject({ page: "search", session: "", options: asked });
  expect(searchAddress({})).toBe("#/search");
});
