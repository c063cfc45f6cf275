import type { EChartsType } from "echarts/core";
import { useMemo, useRef, useState } from "preact/hooks";
import { Chart } from "../../charts/chart";
import { bytes } from "../../format";
import { locale, texts } from "../../i18n";
import { chartColours, isDark } from "../../palette";
import { Fact, known } from "./facts";
import { type Dot, differences, frontDots, isWide, orderedFront } from "./front-data";
import { frontOption } from "./front-option";
import { type Planned, strategiesOf } from "./model";
import { StrategiesBeside } from "./strategies-beside";
import { Sweep } from "./sweep";
import type { FrontPoint } from "./types";

const HEIGHT = 420;

type Axes = "logarithmic" | "linear";

/** The front and the plans of other weights, where they were asked for. */
export function Front(props: { part: Planned }) {
  const { part } = props;
  const t = texts().sharding.front;
  const points = useMemo(() => orderedFront(part.pareto ?? []), [part]);
  if (points.length === 0 && (part.sweep ?? []).length < 2) {
    return null;
  }
  return (
    <section class="panel">
      <h2>{t.title}</h2>
      <p class="faint">
        {t.help}
        {points.length > 0 && ` ${frontSummary(points, part.pareto_complete)}`}
      </p>
      <FrontChart part={part} points={points} />
      {part.sweep && part.sweep.length > 1 && <Sweep rows={part.sweep} />}
    </section>
  );
}

function FrontChart(props: { part: Planned; points: readonly FrontPoint[] }) {
  const { part, points } = props;
  const t = texts().sharding.front;
  const dark = isDark.value;
  const tag = locale();
  const [selected, setSelected] = useState<number | null>(null);
  const dots = useMemo(() => frontDots(part, points, t.series.chosen), [part, points, t]);
  const all = useMemo(() => Object.values(dots).flat(), [dots]);
  const wide = useMemo(
    () => [isWide(all.map((dot) => dot.redundant)), isWide(all.map((dot) => dot.sent))] as const,
    [all],
  );
  const [axes, setAxes] = useState<Axes>(wide[0] || wide[1] ? "logarithmic" : "linear");
  const option = useMemo(() => {
    const isLogarithmic = axes === "logarithmic";
    const marked = all.find((dot) => dot.point !== null && dot.point === selected) ?? null;
    const each = [isLogarithmic && wide[0], isLogarithmic && wide[1]] as const;
    return frontOption(dots, marked, each, t, chartColours(dark));
  }, [dots, all, wide, axes, selected, dark, tag, t]);
  // The chart keeps the listener of its first render.
  const select = useRef(setSelected);
  const step = (by: number) =>
    setSelected((before) =>
      before === null ? 0 : Math.min(points.length - 1, Math.max(0, before + by)),
    );
  return (
    <>
      <div class="row">
        {(wide[0] || wide[1]) && (
          <label>
            {t.axes}{" "}
            <select value={axes} onChange={(event) => setAxes(event.currentTarget.value as Axes)}>
              <option value="logarithmic">{t.logarithmic}</option>
              <option value="linear">{t.linear}</option>
            </select>
          </label>
        )}
        {points.length > 0 && (
          <>
            <button type="button" onClick={() => step(-1)}>
              ← {t.previous}
            </button>
            <button type="button" onClick={() => step(1)}>
              {t.next} →
            </button>
          </>
        )}
        {all.some((dot) => dot.redundant === 0 || dot.sent === 0) && (
          <span class="faint">{t.zeros}</span>
        )}
      </div>
      <Chart
        label={t.chart}
        option={option}
        height={HEIGHT}
        onReady={(chart) => whenChosen(chart, (point) => select.current(point))}
      />
      {points.length > 0 && (
        <div aria-live="polite">
          <ChosenPoint part={part} points={points} selected={selected} />
        </div>
      )}
    </>
  );
}

function ChosenPoint(props: {
  part: Planned;
  points: readonly FrontPoint[];
  selected: number | null;
}) {
  const t = texts().sharding;
  const { part, points, selected } = props;
  const point = selected === null ? undefined : points[selected];
  if (!point || selected === null) {
    return <p class="faint">{t.front.none}</p>;
  }
  const changed = differences(point.choice, part.plan.choice);
  return (
    <>
      <h3>{t.front.point(selected + 1, points.length)}</h3>
      <dl class="facts">
        <Fact name={t.facts.redundant}>{bytes(point.redundant_bytes)}</Fact>
        <Fact name={t.operators.sent}>{bytes(point.communication_bytes)}</Fact>
        <Fact name={t.facts.kept}>{bytes(point.memory_bytes)}</Fact>
        <Fact name={t.facts.peak}>{known(point.predicted_peak_bytes, bytes)}</Fact>
        <Fact name={t.facts.fits}>{yesNo(point.fits)}</Fact>
        <Fact name={t.front.proven}>{yesNo(point.proven)}</Fact>
      </dl>
      <details>
        <summary>{t.front.differs(changed.length)}</summary>
        <StrategiesBeside
          operators={changed.map((index) => part.instance.operators[index]?.name ?? "")}
          left={pick(strategiesOf(part.instance, part.plan.choice), changed)}
          right={pick(strategiesOf(part.instance, point.choice), changed)}
          rightTitle={t.front.ofPoint}
        />
      </details>
    </>
  );
}

/** What a word says of a thing that may not be known. */
export function yesNo(value: boolean | null | undefined): string {
  const t = texts().common;
  return value === null || value === undefined ? t.unknown : value ? `✓ ${t.yes}` : `✕ ${t.no}`;
}

function frontSummary(points: readonly FrontPoint[], isComplete: boolean | undefined): string {
  const t = texts().sharding.front;
  const proven = points.filter((point) => point.proven).length;
  const parts = [
    t.points(points.length),
    proven < points.length ? t.provenPoints(proven) : "",
    isComplete ? t.complete : t.incomplete,
  ];
  return `${parts.filter(Boolean).join(", ")}.`;
}

/** Calls back with the number of a point of the front that is clicked. */
function whenChosen(chart: EChartsType, choose: (point: number) => void) {
  const onClick = (mark: { data?: unknown }) => {
    const dot = (mark.data as { dot?: Dot } | undefined)?.dot;
    if (dot && dot.point !== null) {
      choose(dot.point);
    }
  };
  chart.on("click", onClick);
  return () => {
    chart.off("click", onClick);
  };
}

function pick(values: readonly string[], places: readonly number[]): string[] {
  return places.map((place) => values[place] ?? "");
}
