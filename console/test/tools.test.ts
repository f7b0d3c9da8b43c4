import { expect, test } from "vitest";
import { orderBy } from "../src/views/tools";

test("tools are sorted by any column", () => {
  const tools = [{ name: "read", tokens: 20_000, dollars: 2 }, { name: "fly", tokens: 0, dollars: null }];
  const names = (key: keyof (typeof tools)[0], down: boolean) => orderBy(tools, key, down).map(({ name }) => name);
  expect(names("tokens", true)).toEqual(["read", "fly"]);
  expect(names("name", false)).toEqual(["fly", "read"]);
  expect(names("dollars", true)).toEqual(["read", "fly"]);
});
