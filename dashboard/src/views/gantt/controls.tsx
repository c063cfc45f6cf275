/** Zoom and pan by buttons, and what is shown; the operations' switches are the legend as well. */

import { useId } from "preact/hooks";
import type { Op, SpanReason } from "../../api/types";
import { hatch } from "../../charts/gantt/idle";
import { IDLE_REASONS } from "../../charts/gantt/layers";
import type { MemoryChoice } from "../../charts/gantt/layout";
import { OPERATIONS } from "../../charts/gantt/model";
import type { PathTarget } from "../../charts/gantt/paint";
import { texts } from "../../i18n";
import { chartColours, IDLE_COLOURS, isDark, OPERATION_COLOURS } from "../../palette";
import { type GanttState, PAN_SHARE, ZOOM_STEP } from "./state";

export function Controls({ state }: { state: GanttState }) {
  const t = texts().gantt;
  return (
    <div class="gantt-controls">
      <fieldset class="gantt-buttons">
        <legend class="visually-hidden">{t.viewControls}</legend>
        <ViewButton name={t.zoomIn} mark="+" act={() => state.zoom(1 / ZOOM_STEP)} />
        <ViewButton name={t.zoomOut} mark="−" act={() => state.zoom(ZOOM_STEP)} />
        <ViewButton name={t.earlier} mark="←" act={() => state.pan(-PAN_SHARE)} />
        <ViewButton name={t.later} mark="→" act={() => state.pan(PAN_SHARE)} />
        <button type="button" onClick={() => state.showAll()}>
          {t.showAll}
        </button>
      </fieldset>
      <OperationSwitches state={state} />
      <Switch
        name={t.criticalPath}
        isOn={state.showsCriticalPath.value}
        set={(isOn) => {
          state.showsCriticalPath.value = isOn;
        }}
      />
      <MicroBatchField state={state} />
      <MemoryField state={state} />
    </div>
  );
}

function ViewButton({ name, mark, act }: { name: string; mark: string; act: () => void }) {
  return (
    <button type="button" aria-label={name} title={name} onClick={act}>
      {mark}
    </button>
  );
}

function OperationSwitches({ state }: { state: GanttState }) {
  const t = texts();
  const shown = state.isOpShown.value;
  const used = new Set(state.model.timeline.ops.op);
  return (
    <fieldset class="gantt-buttons">
      <legend class="visually-hidden">{t.gantt.operationsShown}</legend>
      {OPERATIONS.filter((op) => used.has(op)).map((op) => (
        <label key={op} class="gantt-switch">
          <input
            type="checkbox"
            checked={shown[op]}
            onChange={(event) => {
              state.isOpShown.value = { ...shown, [op]: event.currentTarget.checked };
            }}
          />
          <OperationMark op={op} />
          {t.common.operations[op]}
        </label>
      ))}
    </fieldset>
  );
}

function OperationMark({ op }: { op: Op }) {
  const { fill, text } = OPERATION_COLOURS[op];
  return (
    <span class="gantt-mark" style={{ background: fill, color: text }}>
      {op}
    </span>
  );
}

function Switch(props: { name: string; isOn: boolean; set: (isOn: boolean) => void }) {
  return (
    <label class="gantt-switch">
      <input
        type="checkbox"
        checked={props.isOn}
        onChange={(event) => props.set(event.currentTarget.checked)}
      />
      {props.name}
    </label>
  );
}

function MicroBatchField({ state }: { state: GanttState }) {
  const t = texts();
  const chosen = state.microBatch.value;
  return (
    <label class="gantt-switch">
      {t.gantt.microBatch}
      <select
        value={chosen ?? ""}
        onChange={(event) => {
          const { value } = event.currentTarget;
          state.microBatch.value = value === "" ? null : Number(value);
        }}
      >
        <option value="">{t.gantt.all}</option>
        {Array.from({ length: state.model.timeline.micro_batches }, (_, index) => (
          <option key={index} value={index}>
            {index}
          </option>
        ))}
      </select>
    </label>
  );
}

function MemoryField({ state }: { state: GanttState }) {
  const t = texts().gantt;
  const { devices, hosts } = state.model.timeline;
  return (
    <label class="gantt-switch">
      {t.memory}
      <select
        value={keyOf(state.memory.value)}
        onChange={(event) => {
          state.memory.value = choiceOf(event.currentTarget.value);
        }}
      >
        <option value="all">{t.all}</option>
        {devices.map(({ device }) => (
          <option key={device} value={`device ${device}`}>
            {t.device(device)}
          </option>
        ))}
        {hosts.map(({ host }) => (
          <option key={host} value={`host ${host}`}>
            {t.host(host)}
          </option>
        ))}
      </select>
    </label>
  );
}

function keyOf(choice: MemoryChoice): string {
  return choice.kind === "all" ? "all" : `${choice.kind} ${choice.number}`;
}

function choiceOf(key: string): MemoryChoice {
  const [kind, number] = key.split(" ");
  return kind === "device" || kind === "host" ? { kind, number: Number(number) } : { kind: "all" };
}

/** What the shades of idle time and the lines mean. */
export function Legend({ state }: { state: GanttState }) {
  const t = texts().gantt;
  const { devices, lower_bound_ns } = state.model.timeline;
  const used = IDLE_REASONS.filter((reason) => devices.some((entry) => entry.idle_ns[reason] > 0));
  const { limit, text } = chartColours(isDark.value);
  return (
    <ul class="gantt-legend">
      {used.map((reason) => (
        <li key={reason}>
          <IdleMark reason={reason} />
          {t.idleTitle(t.idleReasons[reason])}
        </li>
      ))}
      {devices.some((entry) => (entry.epilogue_ns ?? 0) > 0) && (
        <li>
          <IdleMark reason="epilogue" />
          {t.epilogue}
        </li>
      )}
      <li>
        <LineMark colour={text} />
        {t.makespan}
      </li>
      {lower_bound_ns !== null && (
        <li>
          <LineMark colour={limit} dash="4 3" />
          {t.lowerBound}
        </li>
      )}
      <li>
        <LineMark colour={limit} dash="6 4" isLevel />
        {t.memoryLimit}
      </li>
      {state.showsCriticalPath.value && (
        <li>
          <LineMark colour={text} isLevel />
          {t.criticalPath}
        </li>
      )}
      {state.microBatch.value !== null && (
        <li>
          <LineMark colour={text} dash="4 3" isLevel />
          {t.microBatchPath(state.microBatch.value)}
        </li>
      )}
      {state.model.chunks > 1 && <li>{t.chunkMark}</li>}
    </ul>
  );
}

const MARK = { x: 0, y: 0, width: 26, height: 14 };

function IdleMark({ reason }: { reason: SpanReason }) {
  const id = useId();
  const colour = IDLE_COLOURS[reason];
  return (
    <svg width={MARK.width} height={MARK.height} aria-hidden="true">
      <clipPath id={id}>
        <rect {...MARK} />
      </clipPath>
      <rect {...MARK} fill={colour} opacity="0.2" />
      <path d={hatchData(reason)} stroke={colour} clip-path={`url(#${id})`} />
    </svg>
  );
}

/** The lines of a reason as an SVG path. */
function hatchData(reason: SpanReason): string {
  const parts: string[] = [];
  const path: PathTarget = {
    moveTo: (x, y) => parts.push(`M${x} ${y}`),
    lineTo: (x, y) => parts.push(`L${x} ${y}`),
    rect: () => parts.push(""),
    closePath: () => parts.push("Z"),
  };
  hatch(path, MARK, reason);
  return parts.join("");
}

function LineMark({ colour, dash, isLevel }: { colour: string; dash?: string; isLevel?: boolean }) {
  return (
    <svg width={MARK.width} height={MARK.height} aria-hidden="true">
      <path
        d={isLevel ? "M0 7H26" : "M13 0V14"}
        stroke={colour}
        stroke-width="2"
        stroke-dasharray={dash ?? "none"}
      />
    </svg>
  );
}
