import { useMemo } from "preact/hooks";
import { locale } from "../i18n";
import { chartColours, isDark } from "../palette";
import { type Bars, barsHeight, barsOption } from "./bars";
import { Chart } from "./chart";

/** Horizontal bars with their title; `bars` is expected to stay the same between renders. */
export function BarChart(props: { title: string; label: string; bars: Bars }) {
  const dark = isDark.value;
  const tag = locale();
  // Marks have the numbers of the language.
  const option = useMemo(() => barsOption(props.bars, chartColours(dark)), [props.bars, dark, tag]);
  return (
    <div>
      <h3 class="chart-title">{props.title}</h3>
      <Chart label={props.label} option={option} height={barsHeight(props.bars)} />
    </div>
  );
}
