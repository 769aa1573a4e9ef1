import { defineConfig } from "vite";

// The output is committed: nothing in it may depend on the machine or the moment of the build.
export default defineConfig({
  base: "/studio/",
  oxc: { jsx: { runtime: "automatic", importSource: "preact" } },
  build: {
    outDir: process.env["STUDIO_OUT"] ?? "../src/omnigraph/server/studio_files",
    emptyOutDir: true,
    sourcemap: false,
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    chunkSizeWarningLimit: 800,
  },
  worker: { format: "es" },
});
