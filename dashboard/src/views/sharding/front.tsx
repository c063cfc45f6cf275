import type { EChartsType } from "echarts/core";
import { useMemo, useRef, useState } from "preact/hooks";
import { axisWriter, isWide } from "../../charts/axes";
import { type Axes, AxesChoice } from "../../charts/axes-choice";
import { Chart } from "../../charts/chart";
import { Fact, known, yesNo } from "../../components/fact";
import { bytes } from "../../format";
import { locale, texts } from "../../i18n";
import { chartColours, isDark } from "../../palette";
import { type Dot, differences, frontDots, orderedFront } from "./front-data";
import { frontOption } from "./front-option";
import { type Planned, strategiesOf } from "./model";
import { StrategiesBeside } from "./strategies-beside";
import { Sweep } from "./sweep";
import type { FrontPoint } from "./types";

const HEIGHT = 420;

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
  const [axes, setAxes] = useState<Axes>(
    isWide(all.map((dot) => dot.redundant)) || isWide(all.map((dot) => dot.sent))
      ? "logarithmic"
      : "linear",
  );
  const option = useMemo(() => {
    const marked = all.find((dot) => dot.point !== null && dot.point === selected) ?? null;
    return frontOption(dots, marked, axes === "logarithmic", t, chartColours(dark));
  }, [dots, all, axes, selected, dark, tag, t]);
  // The chart keeps the listener of its first render.
  const select = useRef(setSelected);
  const step = (by: number) =>
    setSelected((before) =>
      before === null ? 0 : Math.min(points.length - 1, Math.max(0, before + by)),
    );
  return (
    <>
      <div class="row">
        <AxesChoice axes={axes} onChange={setAxes} />
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
        {axes === "logarithmic" && all.some((dot) => dot.redundant === 0 || dot.sent === 0) && (
          <span class="faint">{texts().common.axes.zeros}</span>
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
          <ChosenPoint part={part} points={points} dots={all} selected={selected} />
        </div>
      )}
    </>
  );
}

function ChosenPoint(props: {
  part: Planned;
  points: readonly FrontPoint[];
  /** All that the chart shows: its axes choose the units. */
  dots: readonly Dot[];
  selected: number | null;
}) {
  const t = texts().sharding;
  const { part, points, selected } = props;
  const point = selected === null ? undefined : points[selected];
  if (!point || selected === null) {
    return <p class="faint">{t.front.none}</p>;
  }
  const redundant = axisWriter(
    "bytes",
    props.dots.map((dot) => dot.redundant),
  );
  const sent = axisWriter(
    "bytes",
    props.dots.map((dot) => dot.sent),
  );
  const changed = differences(point.choice, part.plan.choice);
  return (
    <>
      <h3>{t.front.point(selected + 1, points.length)}</h3>
      <dl class="facts">
        <Fact name={t.facts.redundant}>{redundant(point.redundant_bytes)}</Fact>
        <Fact name={t.operators.sent}>{sent(point.communication_bytes)}</Fact>
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
