import type { Ref } from "preact";
import type { PlanSource } from "../../api/source";
import type { Timeline } from "../../api/types";
import { Failure, Loading } from "../../components/states";
import { texts } from "../../i18n";
import { comparisonReason, serviceName } from "../../i18n/service-text";
import { type Loaded, useLoad } from "../../use-load";
import { GanttView } from "../gantt";
import type { Contender } from "./comparison";

interface Props {
  source: PlanSource;
  own: Loaded<Timeline>;
  contenders: readonly Contender[];
  shown: string;
  onShow: (key: string) => void;
  headingRef: Ref<HTMLHeadingElement>;
}

/** The plan's schedule over time, or one of those that it is compared with. */
export function SchedulePanel(props: Props) {
  const t = texts().pipeline.schedule;
  const shown = props.contenders.find((entry) => entry.key === props.shown) ?? props.contenders[0];
  const hasChoice = props.source.hasClassicTimelines && props.contenders.length > 1;
  return (
    <section class="panel">
      <div class="row">
        <h2 ref={props.headingRef} tabIndex={-1}>
          {t.title}
        </h2>
        {hasChoice && <ScheduleChoices {...props} />}
      </div>
      {!props.source.hasClassicTimelines && props.contenders.length > 1 && (
        <p class="faint">{t.notInReport}</p>
      )}
      {shown && !shown.isOurs ? (
        <ClassicSchedule key={shown.key} source={props.source} row={shown} />
      ) : (
        <LoadedGantt loaded={props.own} title={shown ? ganttTitle(shown) : t.title} />
      )}
    </section>
  );
}

function ScheduleChoices(props: Props) {
  const t = texts().pipeline.schedule;
  return (
    <label>
      {t.show}{" "}
      <select value={props.shown} onChange={(event) => props.onShow(event.currentTarget.value)}>
        {props.contenders.map((row) => (
          <option key={row.key} value={row.key}>
            {choiceTitle(row)}
          </option>
        ))}
      </select>
    </label>
  );
}

function ClassicSchedule(props: { source: PlanSource; row: Contender }) {
  const t = texts().pipeline.schedule;
  const { row, source } = props;
  if (row.objectiveNs === null) {
    return <p class="state">{t.noFigures(comparisonReason(row) ?? t.unknownReason)}</p>;
  }
  return <ClassicGantt source={source} row={row} />;
}

function ClassicGantt(props: { source: PlanSource; row: Contender }) {
  const { row, source } = props;
  const loaded = useLoad(
    (signal) => source.timeline({ schedule: row.name, placement: row.placement }, signal),
    [source, row.key],
  );
  return <LoadedGantt loaded={loaded} title={ganttTitle(row)} />;
}

function LoadedGantt(props: { loaded: Loaded<Timeline>; title: string }) {
  const { value, error, reload } = props.loaded;
  if (value) {
    return <GanttView timeline={value} title={props.title} />;
  }
  return error ? (
    <Failure error={error} onRetry={reload} />
  ) : (
    <Loading what={texts().pipeline.schedule.loading} />
  );
}

function ganttTitle(row: Contender): string {
  return row.placement
    ? texts().pipeline.schedule.ganttTitle(row.name, serviceName("placement", row.placement))
    : row.name;
}

function choiceTitle(row: Contender): string {
  const t = texts().pipeline.schedule;
  if (row.isOurs) {
    return t.ours(row.placement ? serviceName("placement", row.placement) : "–");
  }
  const remark = row.objectiveNs === null ? t.notComputed : row.fits ? null : t.outOfMemory;
  return remark === null ? ganttTitle(row) : `${ganttTitle(row)} – ${remark}`;
}
