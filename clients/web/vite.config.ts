import { defineConfig } from "vite";

export default defineConfig({
  oxc: { jsx: { runtime: "automatic", importSource: "preact" } },
  build: {
    outDir: "../../src/jaato/server/web/built",
    emptyOutDir: true,
    target: "es2022",
    modulePreload: { polyfill: false },
    assetsInlineLimit: 0,
    reportCompressedSize: true,
  },
  server: { host: "127.0.0.1", proxy: { "/v1": { target: "http://127.0.0.1:8391", ws: true }, "/pair": "http://127.0.0.1:8391" } },
});
