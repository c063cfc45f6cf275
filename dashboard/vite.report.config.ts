import { defineConfig } from "vite";

// One script and one style sheet, which `loadmaster report` puts into the page it writes.
export default defineConfig({
  publicDir: false,
  build: {
    outDir: "../app/dashboard/report",
    emptyOutDir: true,
    modulePreload: false,
    cssCodeSplit: false,
    chunkSizeWarningLimit: 1500,
    license: { fileName: "licenses.md" },
    rollupOptions: {
      input: "src/report.tsx",
      output: {
        format: "iife",
        entryFileNames: "report.js",
        assetFileNames: "report[extname]",
        codeSplitting: false,
      },
    },
  },
});
