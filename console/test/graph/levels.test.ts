import { expect, test } from "vitest";
import { at, radiusOf } from "../../src/views/graph/camera";
import { byTool, byToolAndTurn, type Scene } from "../../src/views/graph/levels";
import { placed } from "../../src/views/graph/places";
import { fittedScene, GROUPINGS, scenesOf } from "../../src/views/graph/scenes";
import { largeGraph, madeGraph } from "./made";

const large = largeGraph();
const wanted = { grouping: GROUPINGS[0], tool: "", unused: true, focus: "", steps: 2 };
const members = (scene: Scene) => scene.groups.flatMap((group) => group.members);

test("however wide a turn is drawn, every node is in one group and no two groups touch", () => {
  const scenes = scenesOf(large, wanted);
  for (const across of [0.4, 0.9, 3, 17, 60, 400]) {
    const scene = scenes.at(across);
    expect(new Set(members(scene)).size).toBe(1500);
    expect(members(scene).length).toBe(1500);
    const camera = { x: 0, y: 0, across, down: 40 };
    const drawn = scene.groups.map((group) => [...at(camera, group), radiusOf(group, camera)]);
    drawn.forEach(([x, y, radius], index) => {
      for (const [ox, oy, other] of drawn.slice(0, index))
        if (Math.hypot(x - ox, y - oy) < radius + other) expect.fail(`${x},${y} on ${ox},${oy} at ${across}`);
    });
  }
});

test("zooming in opens groups, to single results in the end", () => {
  const scenes = scenesOf(large, wanted);
  const counts = [0.4, 0.9, 3, 17, 60].map((across) => scenes.at(across).groups.length);
  expect(counts).toEqual([...counts].sort((a, b) => a - b));
  expect(counts[0]).toBeLessThan(500);
  expect(counts.at(-1)).toBe(1500);
});

test("a group opens into groups of its own members", () => {
  const places = placed(large, false);
  const [coarse, fine] = [byToolAndTurn(places, 8), byToolAndTurn(places, 4)];
  const holder = new Map(coarse.groups.flatMap((group) => group.members.map((node) => [node, group] as const)));
  for (const group of fine.groups) expect(new Set(group.members.map((node) => holder.get(node))).size).toBe(1);
});

test("links between groups are all there but those within one", () => {
  const scene = scenesOf(large, wanted).at(0.4);
  const holder = new Map(scene.groups.flatMap((group) => group.members.map((node) => [node, group] as const)));
  const within = large.links.filter((link) => holder.get(link.source) === holder.get(link.target)).length;
  const between = scene.bundles.reduce((sum, bundle) => sum + bundle.links.length, 0);
  expect(between + within).toBe(large.links.length);
  expect(scene.bundles.length).toBeLessThan(large.links.length);
});

test("by tool, each has a place at the left for what was drawn on and at the right for what drew", () => {
  const graph = madeGraph([[1, 0], [2, 0], [3, 1], [4, 1]], [[0, 11, "A_1"], [0, 21, "A_1"], [1, 21, "B_1"], [2, 99, "C_1"]], [[99, 5]]);
  const scene = byTool(graph);
  expect(scene.groups.map((group) => `${group.id} ${group.members.length}`)).toEqual(["source.0 2", "source.1 1", "target.0 1", "target.1 1", "target.-1 1"]);
  const bundles = scene.bundles.map((bundle) => `${bundle.source.id} ${bundle.target.id} ${bundle.count}`);
  expect(bundles.sort()).toEqual(["source.0 target.0 1", "source.0 target.1 2", "source.1 target.-1 1"]);
});

test("of very many tools, the least busy share a lane", () => {
  const made = Array.from({ length: 200 }, (_, index): [number, number] => [index + 1, 0]);
  const graph = madeGraph(made, []);
  for (const [index, node] of graph.nodes.entries()) node.tool = index < 100 ? index % 50 : index % 5;
  const scene = scenesOf(graph, wanted).at(60);
  expect(scene.lanes.length).toBe(28);
  expect(scene.lanes.at(-1)?.name).toBe("23 other tools");
  expect(members(scene).length).toBe(200);
  expect(scene.lanes.slice(0, 5).map((lane) => lane.tool)).toEqual([0, 1, 2, 3, 4]);
});

test("by turn, a group has all tools of its turns and never less than a turn", () => {
  const scenes = scenesOf(large, { ...wanted, grouping: "turn" });
  expect(scenes.at(400).groups.length).toBe(1200);
  expect(new Set(scenes.at(400).groups.map((group) => group.y))).toEqual(new Set([4.5]));
  expect(scenes.at(1).groups.length).toBeLessThan(30);
});

test("a lineage takes the room of its own turns alone", () => {
  const scene = scenesOf(large, { ...wanted, focus: "r700", steps: 1 }).at(60);
  expect(members(scene).map((node) => node.id)).toContain("r700");
  expect(scene.turns.length).toBe(new Set(members(scene).map((node) => node.turn)).size);
  expect(scene.width).toBeLessThan(scene.turns.length + 1);
});

test.each(GROUPINGS)("what is fitted is within the window, grouped by %s", (grouping) => {
  const scenes = scenesOf(large, { ...wanted, grouping });
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

test.each(GROUPINGS)("without any room, all stand in one place, grouped by %s", (grouping) => {
  const scenes = scenesOf(large, { ...wanted, grouping });
  const camera = fittedScene(scenes, { width: 0, height: 0, left: 84, top: 24 });
  expect(scenes.at(camera.across).groups.length).toBeLessThan(30);
});

test("groups by tool and file stand file beside file, and open to single results", () => {
  const files = Array.from({ length: 40 }, (_, index) => `src/${String.fromCharCode(97 + (index % 5))}/file_${index}.py`);
  const made: [number, number][] = Array.from({ length: 1200 }, (_, index) => [index + 1, index % 3]);
  const graph = madeGraph(made, [], [], files);
  const scenes = scenesOf(graph, { ...wanted, grouping: "tool and file" });
  const whole = scenes.at(0.6);
  expect(members(whole).length).toBe(1200);
  expect(whole.groups.length).toBeLessThan(200);
  expect(new Set(whole.files)).toEqual(new Set(files));
  expect([...new Set(whole.files)]).toEqual([...files].sort());
  const finest = scenes.at(60);
  expect(finest.groups.length).toBe(1200);
  for (const { x, members: [node] } of finest.groups) expect(finest.files[Math.floor(x)]).toBe(node.file);
  const [one] = scenes.at(24 / 8).groups.filter(({ members }) => new Set(members.map(({ file }) => file)).size === 1 && members.length > 1);
  expect(one.label).toContain(one.members[0].file);
});
