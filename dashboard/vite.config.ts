import { defineConfig } from "vite";

// Addresses are relative, so that the dashboard works below any path of a proxy.
export default defineConfig({
  base: "./",
  build: {
    outDir: "../app/dashboard/static",
    emptyOutDir: true,
    // The content security policy allows no inline script.
    modulePreload: { polyfill: false },
    assetsInlineLimit: 0,
    chunkSizeWarningLimit: 1500,
    license: { fileName: "licenses.md" },
  },
  server: { proxy: { "/v1": process.env.DASHBOARD_API ?? "http://127.0.0.1:8400" } },
});
