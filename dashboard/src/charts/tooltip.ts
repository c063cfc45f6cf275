/** What is shown at a point of a chart: an element made of text, whatever the names hold. */

import type { ChartColours } from "../palette";

/** A line of text, or a name with its figure. */
export type TipLine = string | readonly [string, string];

export function tooltipElement(title: string, lines: readonly TipLine[]): HTMLElement {
  const element = document.createElement("div");
  element.className = "chart-tip";
  const head = document.createElement("strong");
  head.textContent = title;
  element.append(head);
  for (const line of lines) {
    const row = document.createElement("div");
    row.className = "chart-tip-row";
    for (const text of typeof line === "string" ? [line] : line) {
      const part = document.createElement("span");
      part.textContent = text;
      row.append(part);
    }
    element.append(row);
  }
  return element;
}

/** A tooltip of the mark below the pointer that stays within its chart. */
export function tooltip<Params>(
  colours: ChartColours,
  formatter: (params: Params) => HTMLElement | null,
) {
  return { trigger: "item" as const, ...look(colours), formatter };
}

/** A tooltip of the row, or the moment, that the pointer is at. */
export function rowTooltip(colours: ChartColours, formatter: (dataIndex: number) => HTMLElement) {
  return {
    trigger: "axis" as const,
    axisPointer: { type: "shadow" },
    ...look(colours),
    formatter: (points: { dataIndex: number }[]) => formatter(points[0]?.dataIndex ?? 0),
  };
}

function look(colours: ChartColours) {
  return {
    confine: true,
    backgroundColor: colours.surface,
    borderColor: colours.grid,
    textStyle: { color: colours.text },
  };
}
