/** What lies under the mouse: at the pointer, with an outline around it and a line over all rows. */

import type { Hit } from "../../charts/gantt/hit";
import { type GanttLayout, LEFT, RIGHT } from "../../charts/gantt/layout";
import type { GanttModel } from "../../charts/gantt/model";
import { bytesAt } from "../../charts/gantt/search";
import type { TimeWindow } from "../../charts/gantt/window";
import { bytes, exactTime, number } from "../../format";
import { texts } from "../../i18n";
import { rowName } from "./look";
import { factsOf, shortName } from "./words";

interface Props {
  model: GanttModel;
  layout: GanttLayout;
  view: TimeWindow;
  hit: Hit;
  x: number;
  y: number;
  width: number;
}

const TOOLTIP_WIDTH = 300;

export function Tooltip(props: Props) {
  const { hit, x, y, layout } = props;
  const isRight = x > props.width - TOOLTIP_WIDTH;
  return (
    <div class="gantt-pointed" aria-hidden="true">
      <div
        class="gantt-cursor"
        style={{
          left: `${x}px`,
          top: `${layout.rowsTop}px`,
          height: `${layout.sliderTop - layout.rowsTop - 8}px`,
        }}
      />
      <Outline {...props} />
      <div
        class="gantt-tooltip"
        style={{ left: `${isRight ? x - TOOLTIP_WIDTH - 14 : x + 14}px`, top: `${y + 14}px` }}
      >
        {hit.op !== null && <OperationLines model={props.model} op={hit.op} />}
        {hit.op === null && <OtherLines {...props} />}
      </div>
    </div>
  );
}

/** Around the operation that the pointer is on. */
function Outline({ model, layout, view, hit, width }: Props) {
  const placed = hit.op === null ? null : layout.rows.find(({ row }) => row === hit.row);
  if (!placed || hit.op === null) {
    return null;
  }
  const { start_ns, end_ns } = model.timeline.ops;
  const chartWidth = width - LEFT - RIGHT;
  const scale = chartWidth / (view.endNs - view.startNs);
  const left = Math.max(0, ((start_ns[hit.op] ?? 0) - view.startNs) * scale);
  const right = Math.min(chartWidth, ((end_ns[hit.op] ?? 0) - view.startNs) * scale);
  return (
    <div
      class="gantt-outline"
      style={{
        left: `${LEFT + left}px`,
        width: `${Math.max(2, right - left)}px`,
        top: `${layout.rowsTop + placed.top}px`,
        height: `${placed.height}px`,
      }}
    />
  );
}

function OperationLines({ model, op }: { model: GanttModel; op: number }) {
  const t = texts().gantt;
  const facts = factsOf(model, op);
  return (
    <>
      <strong>{facts.title}</strong>
      <span>{facts.link === null ? facts.device : `${facts.device} · ${facts.link}`}</span>
      <span>{`${facts.start} – ${facts.end}`}</span>
      <span>{`${t.duration}: ${facts.duration}`}</span>
      <span>
        {facts.after === null ? facts.why : `${facts.why} ${shortName(model, facts.after)}`}
      </span>
      <span>{t.successorCount(facts.successors.length)}</span>
      <MemoryLine model={model} op={op} />
    </>
  );
}

function MemoryLine({ model, op }: { model: GanttModel; op: number }) {
  const row = model.rows[model.rowOf[op] ?? 0];
  const entry = model.timeline.devices.find(({ device }) => device === row?.device);
  if (row?.kind !== "device" || !entry) {
    return null;
  }
  const held = bytesAt(entry.memory, model.timeline.ops.start_ns[op] ?? 0);
  return <span>{texts().gantt.memoryAtStart(bytes(held))}</span>;
}

function OtherLines({ model, hit }: Props) {
  const t = texts().gantt;
  const at = exactTime(Math.round(hit.timeNs));
  if (hit.idle) {
    const { start_ns, end_ns, reason, next } = hit.idle;
    return (
      <>
        <strong>{reason === "epilogue" ? t.epilogue : t.idleTitle(t.idleReasons[reason])}</strong>
        <span>{hit.row && rowName(hit.row)}</span>
        <span>{`${exactTime(start_ns)} – ${exactTime(end_ns)}`}</span>
        <span>{`${t.duration}: ${exactTime(end_ns - start_ns)}`}</span>
        {next !== null && <span>{t.idleUntil(shortName(model, next))}</span>}
      </>
    );
  }
  if (hit.lane) {
    const { lane } = hit;
    const held = bytesAt(lane.steps, hit.timeNs);
    return (
      <>
        <strong>{lane.kind === "device" ? t.device(lane.number) : t.host(lane.number)}</strong>
        <span>{at}</span>
        <span>{t.held(bytes(held), number(held))}</span>
        {lane.limitBytes !== null && <span>{t.limitOf(bytes(lane.limitBytes))}</span>}
        {lane.limitBytes !== null && held > lane.limitBytes && (
          <strong class="error-text">{t.overBy(bytes(held - lane.limitBytes))}</strong>
        )}
      </>
    );
  }
  return (
    <>
      {hit.row && <strong>{rowName(hit.row)}</strong>}
      <span>{at}</span>
    </>
  );
}
