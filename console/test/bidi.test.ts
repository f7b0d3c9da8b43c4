import { expect, test } from "vitest";
import { h, options } from "preact";
import { showReorderingCharacters, visibleText } from "../src/bidi";

test("bidi overrides in names are shown", () => {
  expect(visibleText("gnp.\u202eexe")).toBe("gnp.⟨U+202E⟩exe");
  expect(visibleText("مرحبا, שלום")).toBe("مرحبا, שלום");
});

test("every drawn text and title shows bidi overrides", () => {
  const before = options.vnode;
  showReorderingCharacters();
  expect(h("code", { title: "a\u2066b" }, "x\u202ey", 3).props).toMatchObject({ title: "a⟨U+2066⟩b", children: ["x⟨U+202E⟩y", 3] });
  options.vnode = before;
});
