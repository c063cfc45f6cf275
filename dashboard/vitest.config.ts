import { defineConfig } from "vitest/config";

export default defineConfig({
  test: {
    environment: "happy-dom",
    // The files share one page: making one anew for each takes longer than the tests.
    isolate: false,
    include: ["tests/**/*.test.ts?(x)"],
  },
});
