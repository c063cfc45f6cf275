/** A schedule over time, with the memory of its devices and hosts below it. */

import type { Signal } from "@preact/signals";
import { useId, useMemo } from "preact/hooks";
import type { Timeline } from "../../api/types";
import type { MemoryChoice } from "../../charts/gantt/layout";
import { buildModel } from "../../charts/gantt/model";
import type { TimeWindow } from "../../charts/gantt/window";
import { Empty } from "../../components/states";
import { percent, writerOf } from "../../format";
import { texts } from "../../i18n";
import { comparisonReason } from "../../i18n/service-text";
import "../../styles/gantt.css";
import { GanttChart } from "./chart";
import { Controls, Legend } from "./controls";
import { Details } from "./details";
import { GanttState } from "./state";
import { Summary } from "./summary";

/** A time axis that several charts have in common: they zoom and pan together. */
export interface SharedAxis {
  untilNs: number;
  view: Signal<TimeWindow>;
  /** Whose memory all of them show; each its own choice without it. */
  memory?: Signal<MemoryChoice>;
}

export function GanttView(props: { timeline: Timeline; title: string; axis?: SharedAxis }) {
  const { timeline, title, axis } = props;
  const t = texts().gantt;
  const helpId = useId();
  const state = useMemo(
    () => new GanttState(buildModel(timeline, axis?.untilNs), axis?.view, axis?.memory),
    [timeline, axis],
  );
  if (timeline.ops.op.length === 0) {
    return (
      <Empty title={t.noOperations}>{timeline.reason && <p>{comparisonReason(timeline)}</p>}</Empty>
    );
  }
  return (
    <section class="gantt" aria-label={title}>
      {!timeline.fits && (
        <p class="banner banner-stale">
          {t.doesNotFit} {comparisonReason(timeline)}
        </p>
      )}
      <p class="faint">{overview(timeline)}</p>
      <Controls state={state} />
      <GanttChart key={state} state={state} label={title} describedBy={helpId} />
      <Legend state={state} />
      <Details state={state} title={props.title} />
      <details class="gantt-help">
        <summary>{t.help}</summary>
        <p id={helpId}>{t.keysHelp}</p>
        <p>{t.mouseHelp}</p>
      </details>
      <Summary model={state.model} />
    </section>
  );
}

/** The chart in a sentence. */
function overview(timeline: Timeline): string {
  const busy = timeline.devices.reduce((sum, entry) => sum + entry.busy_ns, 0);
  const epilogue = timeline.devices.reduce((sum, entry) => sum + (entry.epilogue_ns ?? 0), 0);
  const whole = Math.max(1, timeline.devices.length * timeline.makespan_ns);
  return texts().gantt.overview(
    timeline.devices.length,
    timeline.micro_batches,
    writerOf("time", [timeline.makespan_ns])(timeline.makespan_ns),
    percent((busy - epilogue) / whole, 1),
    percent(epilogue / whole, 1),
    percent(1 - busy / whole, 1),
  );
}
