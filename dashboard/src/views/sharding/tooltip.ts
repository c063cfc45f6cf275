/** What is shown at a point of a chart: an element made of text, whatever the names hold. */

export function tooltipElement(title: string, rows: readonly (readonly [string, string])[]) {
  const element = document.createElement("div");
  element.className = "chart-tip";
  const head = document.createElement("strong");
  head.textContent = title;
  element.append(head);
  for (const [name, value] of rows) {
    const row = document.createElement("div");
    row.className = "chart-tip-row";
    const label = document.createElement("span");
    label.textContent = name;
    const figure = document.createElement("span");
    figure.textContent = value;
    row.append(label, figure);
    element.append(row);
  }
  return element;
}

/** A tooltip in the colours of the page that stays within its chart. */
export function tooltip<Params>(formatter: (params: Params) => HTMLElement) {
  return { trigger: "item" as const, confine: true, className: "chart-tip-frame", formatter };
}
