/** What a chart's tooltip shows, made of text nodes: names may hold any text. */

import type { ChartColours } from "../../palette";

export function tooltipContent(title: string, lines: readonly string[]): HTMLElement {
  const box = document.createElement("div");
  box.className = "chart-tooltip";
  const heading = document.createElement("strong");
  heading.textContent = title;
  box.append(heading);
  for (const line of lines) {
    const row = document.createElement("div");
    row.textContent = line;
    box.append(row);
  }
  return box;
}

/** A tooltip in the colours of the page, that stays inside the chart. */
export function tooltipOption(
  colours: ChartColours,
  formatter: (dataIndex: number) => HTMLElement,
): Record<string, unknown> {
  return {
    trigger: "axis",
    axisPointer: { type: "shadow" },
    confine: true,
    backgroundColor: colours.surface,
    borderColor: colours.grid,
    textStyle: { color: colours.text },
    formatter: (points: { dataIndex: number }[]) => formatter(points[0]?.dataIndex ?? 0),
  };
}
