import { expect, test } from "vitest";
import { h, options } from "preact";
import { showReorderingCharacters, visibleText } from "../src/bidi";

test("a name that a bidi override disguises shows the override", () => {
  expect(visibleText("gnp.\u202eexe")).toBe("gnp.⟨U+202E⟩exe");
  expect(visibleText("مرحبا, שלום")).toBe("مرحبا, שלום");
});

test("every text and title that is drawn is treated so", () => {
  const before = options.vnode;
  showReorderingCharacters();
  expect(h("code", { title: "a\u2066b" }, "x\u202ey", 3).props).toMatchObject({ title: "a⟨U+2066⟩b", children: ["x⟨U+202E⟩y", 3] });
  options.vnode = before;
});
