import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";

import { defineConfig, type Plugin } from "vite";

/** Writes the licences of the packages whose code is in the built files. */
function licences(): Plugin {
  return {
    name: "licences",
    generateBundle() {
      const texts = new Map<string, string>();
      for (const id of this.getModuleIds()) {
        const found = /^(.*node_modules\/(?:@[^/]+\/)?[^/]+)\//.exec(id.replaceAll("\\", "/"));
        if (!found || texts.has(found[1]!)) continue;
        const directory = found[1]!;
        const { name, version, license } = JSON.parse(readFileSync(join(directory, "package.json"), "utf8"));
        const file = readdirSync(directory).find((entry) => /^licen[cs]e/i.test(entry));
        const text = file && existsSync(join(directory, file)) ? readFileSync(join(directory, file), "utf8") : "";
        texts.set(directory, `${name} ${version} (${license})\n\n${text.trim()}\n`);
      }
      const source = [...texts.values()].sort().join(`\n${"-".repeat(72)}\n\n`);
      this.emitFile({ type: "asset", fileName: "licences.txt", source });
    },
  };
}

export default defineConfig({
  plugins: [licences()],
  oxc: { jsx: { runtime: "automatic", importSource: "preact" } },
  build: {
    outDir: "../../src/jaato/server/web/built",
    emptyOutDir: true,
    target: "es2022",
    modulePreload: { polyfill: false },
    assetsInlineLimit: 0,
  },
  server: {
    host: "127.0.0.1",
    proxy: { "/v1": { target: "http://127.0.0.1:8391", ws: true }, "/pair": "http://127.0.0.1:8391" },
  },
});
