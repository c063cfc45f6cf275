/** Colours of charts, told apart by people of any colour vision (Okabe and Ito, 2008). */

import { signal } from "@preact/signals";
import type { Op, SpanReason } from "./api/types";
import { readStored, store } from "./storage";

export type Theme = "system" | "light" | "dark";

const NAME = "loadmaster-theme";
const systemIsDark = globalThis.matchMedia?.("(prefers-color-scheme: dark)");

export const theme = signal<Theme>(initialTheme());
/** Whether dark colours are shown. */
export const isDark = signal(darkness());

export interface ChartColours {
  text: string;
  faintText: string;
  grid: string;
  surface: string;
  idle: string;
  limit: string;
  accent: string;
  series: readonly string[];
}

/** The colour of each operation, and of the text on it. */
export const OPERATION_COLOURS: Record<Op, { fill: string; text: string }> = {
  F: { fill: "#0072b2", text: "#ffffff" },
  B: { fill: "#009e73", text: "#000000" },
  W: { fill: "#e69f00", text: "#000000" },
  O: { fill: "#cc79a7", text: "#000000" },
  R: { fill: "#56b4e9", text: "#000000" },
};

export const IDLE_COLOURS: Record<SpanReason, string> = {
  epilogue: "#8c6d46",
  fill: "#8a94a3",
  drain: "#5d6775",
  dependency: "#7a6fbe",
  memory: "#d55e00",
  link: "#b0487f",
  slack: "#b8a900",
};

export function chartColours(dark: boolean): ChartColours {
  const series = ["#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#b8a900"];
  return dark
    ? {
        text: "#e6eaf0",
        faintText: "#a9b3c1",
        grid: "#303a48",
        surface: "#161b22",
        idle: "#2a3340",
        limit: "#ff8a5c",
        accent: "#6cb6ff",
        series: ["#56b4e9", ...series.slice(1, 4), "#0072b2", ...series.slice(5)],
      }
    : {
        text: "#1c232d",
        faintText: "#56606e",
        grid: "#dde2e9",
        surface: "#ffffff",
        idle: "#eceff3",
        limit: "#b23c00",
        accent: "#0b5cad",
        series,
      };
}

export function setTheme(chosen: Theme): void {
  store("local", NAME, chosen);
  theme.value = chosen;
  applyTheme();
}

/** Show the chosen colours, and follow the system's where that is the choice. */
export function followTheme(): void {
  systemIsDark?.addEventListener("change", applyTheme);
  applyTheme();
}

function applyTheme(): void {
  isDark.value = darkness();
  document.documentElement.dataset.theme = isDark.value ? "dark" : "light";
}

function darkness(): boolean {
  return theme.value === "dark" || (theme.value === "system" && (systemIsDark?.matches ?? false));
}

function initialTheme(): Theme {
  const kept = readStored("local", NAME);
  return kept === "light" || kept === "dark" ? kept : "system";
}
