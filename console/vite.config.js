// Builds the page into the Python package, so that a user's machine never builds.
import { createHash } from "node:crypto";
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { defineConfig } from "vite";

const OUT = "../py_bridge/contextrender_bridge/console";
const SOURCES = ["index.html", "package-lock.json", "package.json", "public", "src", "tsconfig.json", "vite.config.js"];

/** Leaves beside the page the digest of what it was built from; tests/console/test_build.py compares. */
const digest = {
  name: "digest",
  closeBundle() {
    const files = SOURCES.flatMap(filesOf).sort();
    const hash = createHash("sha256");
    for (const file of files) hash.update(`${file}\0`).update(readFileSync(file)).update("\0");
    writeFileSync(join(OUT, "sources.sha256"), `${hash.digest("hex")}\n`);
  },
};

const filesOf = (path) => (path.includes(".") ? [path] : readdirSync(path).flatMap((name) => filesOf(`${path}/${name}`)));

export default defineConfig({
  base: "/console/",
  oxc: { jsx: { runtime: "automatic", importSource: "preact" } },
  plugins: [digest],
  build: {
    outDir: OUT,
    emptyOutDir: true,
    target: "es2022",
    modulePreload: { polyfill: false },
    assetsInlineLimit: 0,
    reportCompressedSize: false,
  },
  server: { proxy: { "/walker": "http://127.0.0.1:8000", "/user": "http://127.0.0.1:8000" } },
});
