import { expect, test } from "vitest";
import { at, radiusOf } from "../../src/views/graph/camera";
import { fittedScene, type Scene, sceneOf, scenesOf } from "../../src/views/graph/levels";
import { filtered } from "../../src/views/graph/model";
import { placeByTurn } from "../../src/views/graph/places";
import { largeGraph } from "./made";

const large = filtered(largeGraph(), "");
const all = large.nodes.length;
const wanted = { tool: "", focus: "" };
const members = (scene: Scene) => scene.groups.flatMap((group) => group.members);

test("at every zoom each node is in one group and no groups overlap", () => {
  const scenes = scenesOf(large, wanted);
  for (const across of [0.4, 0.9, 3, 17, 60, 400]) {
    const scene = scenes.at(across);
    expect(new Set(members(scene)).size).toBe(all);
    expect(members(scene).length).toBe(all);
    const camera = { x: 0, y: 0, across, down: 40 };
    const drawn = scene.groups.map((group) => [...at(camera, group), radiusOf(group, camera)]);
    drawn.forEach(([x, y, radius], index) => {
      for (const [ox, oy, other] of drawn.slice(0, index))
        if (Math.hypot(x - ox, y - oy) < radius + other) expect.fail(`${x},${y} on ${ox},${oy} at ${across}`);
    });
  }
});

test("zooming in opens groups down to single results", () => {
  const scenes = scenesOf(large, wanted);
  const counts = [0.4, 0.9, 3, 17, 60].map((across) => scenes.at(across).groups.length);
  expect(counts).toEqual([...counts].sort((a, b) => a - b));
  expect(counts[0]).toBeLessThan(500);
  expect(counts.at(-1)).toBe(all);
});

test("a group opens into groups of its members", () => {
  const places = placeByTurn(large, false);
  const [coarse, fine] = [sceneOf(places, 8), sceneOf(places, 4)];
  const holder = new Map(coarse.groups.flatMap((group) => group.members.map((node) => [node, group] as const)));
  for (const group of fine.groups) expect(new Set(group.members.map((node) => holder.get(node))).size).toBe(1);
});

test("links between groups are complete, without links within a group", () => {
  const scene = scenesOf(large, wanted).at(0.4);
  const holder = new Map(scene.groups.flatMap((group) => group.members.map((node) => [node, group] as const)));
  const within = large.links.filter((link) => holder.get(link.source) === holder.get(link.target)).length;
  const between = scene.bundles.reduce((sum, bundle) => sum + bundle.links.length, 0);
  expect(between + within).toBe(large.links.length);
  expect(scene.bundles.length).toBeLessThan(large.links.length);
});

test("a lineage has only the width of its turns", () => {
  const scene = scenesOf(large, { ...wanted, focus: "r700" }).at(60);
  expect(members(scene).map((node) => node.id)).toContain("r700");
  expect(scene.turns.length).toBe(new Set(members(scene).map((node) => node.turn)).size);
  expect(scene.width).toBeLessThan(scene.turns.length + 1);
});

test("what is fitted is within the window", () => {
  const scenes = scenesOf(large, wanted);
  for (const [width, height] of [[1100, 560], [330, 400], [1800, 900]] as const) {
    const window = { width, height, left: 84, top: 24 };
    const camera = fittedScene(scenes, window);
    for (const group of scenes.at(camera.across).groups) {
      const [[x, y], radius] = [at(camera, group), radiusOf(group, camera)];
      expect(x - radius).toBeGreaterThanOrEqual(window.left);
      expect(x + radius).toBeLessThanOrEqual(width);
      expect(y - radius).toBeGreaterThanOrEqual(window.top);
      expect(y + radius).toBeLessThanOrEqual(height);
    }
  }
});
