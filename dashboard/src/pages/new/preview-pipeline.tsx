/** The resolved problem of each placement: what devices have left, stages take, and bounds say. */

import { useState } from "preact/hooks";
import { type Column, measured, SortableTable } from "../../components/sortable-table";
import { bytes, duration, number, writerOf } from "../../format";
import { texts } from "../../i18n";
import { serviceName } from "../../i18n/service-text";
import { Assumptions, Fact, SolverOptions } from "./preview-parts";
import { ShortageReport } from "./preview-shortage";
import type {
  PipelinePreview,
  PlacementPreview,
  ProblemPreview,
  Quantity,
  StagePreview,
} from "./preview-types";

export function PipelineResolved(props: { preview: PipelinePreview }) {
  const t = texts().form.check;
  const { placements, static_shortage, assumptions, options } = props.preview;
  const [chosen, setChosen] = useState<string | null>(null);
  const shown = placements.find((entry) => entry.placement === chosen) ?? bestOf(placements);
  const time = writerOf(
    "time",
    placements.map((entry) => entry.lower_bound_ns),
  );
  const nothingFits = placements.every((entry) => !entry.feasible);
  return (
    <>
      {nothingFits && (
        <div class="banner banner-stale">
          <p class="state-title">{t.nothingFits}</p>
          {static_shortage && <ShortageReport shortage={static_shortage} />}
        </div>
      )}
      {shown && (
        <>
          <dl class="facts">
            <Fact title={t.placements}>{number(placements.length)}</Fact>
            <Fact title={t.microBatches}>{number(shown.problem.micro_batches)}</Fact>
            <Fact title={t.devices}>{number(shown.problem.devices.length)}</Fact>
            <Fact title={t.bestBound}>
              {time(Math.min(...placements.map((entry) => entry.lower_bound_ns)))}
            </Fact>
          </dl>
          {placements.length > 1 && (
            <label class="form-inline">
              {t.placement}
              <select
                value={shown.placement}
                onChange={(event) => setChosen(event.currentTarget.value)}
              >
                {placements.map((entry) => (
                  <option key={entry.placement} value={entry.placement}>
                    {serviceName("placement", entry.placement)} · {time(entry.lower_bound_ns)}
                    {entry.feasible ? "" : " ⊘"}
                  </option>
                ))}
              </select>
            </label>
          )}
          <Placement placement={shown} />
        </>
      )}
      <Assumptions assumptions={assumptions} />
      <SolverOptions options={options} />
    </>
  );
}

function Placement(props: { placement: PlacementPreview }) {
  const t = texts().form.check;
  const { placement } = props;
  const columns: Column<PlacementPreview["bounds"][number]>[] = [
    { id: "name", title: t.boundName, cell: (row) => serviceName("bound", row.name) },
    measured("time", "value", t.value, (row) => row.value_ns),
  ];
  return (
    <>
      {placement.infeasibility && (
        <div class="banner banner-stale">
          <p class="state-title">{t.notThisPlacement}</p>
          <ShortageReport shortage={placement.infeasibility} />
        </div>
      )}
      <Devices problem={placement.problem} />
      <Stages problem={placement.problem} />
      <details>
        <summary>{t.bounds}</summary>
        <SortableTable
          caption={t.bounds}
          columns={columns}
          rows={placement.bounds}
          rowKey={(row) => row.name}
        />
      </details>
    </>
  );
}

function Devices(props: { problem: ProblemPreview }) {
  const t = texts().form.check;
  const rows = props.problem.devices.map((device, index) => ({ device, index }));
  const columns: Column<(typeof rows)[number]>[] = [
    { id: "device", title: t.device, cell: (row) => row.device.name ?? String(row.index) },
    {
      id: "memory",
      title: t.memoryLeft,
      numeric: true,
      cell: ({ device }) =>
        device.activation_memory_bytes == null ? t.noLimit : bytes(device.activation_memory_bytes),
      value: ({ device }) => device.activation_memory_bytes ?? null,
    },
    {
      id: "stages",
      title: t.stages,
      cell: (row) => stagesOn(props.problem, row.index).join(", "),
    },
    {
      id: "epilogue",
      title: t.epilogue,
      numeric: true,
      cell: ({ device }) => duration(device.epilogue_ns ?? 0),
      value: ({ device }) => device.epilogue_ns ?? 0,
    },
  ];
  return (
    <details open>
      <summary>
        {t.deviceTable} ({number(rows.length)})
      </summary>
      <SortableTable
        caption={t.deviceTable}
        columns={columns}
        rows={rows}
        rowKey={(row) => String(row.index)}
      />
    </details>
  );
}

function Stages(props: { problem: ProblemPreview }) {
  const t = texts().form.check;
  const rows = props.problem.stages.map((stage, index) => ({ stage, index }));
  type Row = (typeof rows)[number];
  const time = (id: string, title: string, of: (stage: StagePreview) => Quantity | undefined) => ({
    id,
    title,
    numeric: true,
    cell: (row: Row) => quantity(of(row.stage), duration, t.varying),
  });
  const columns: Column<Row>[] = [
    { id: "stage", title: t.stage, cell: (row) => row.stage.name ?? String(row.index) },
    time("forward", t.forward, (stage) => stage.forward_ns),
    time("backward", t.backward, (stage) => stage.backward_input_ns),
    time("weight", t.weight, (stage) => stage.backward_weight_ns),
    time("offload", t.offload, (stage) => stage.offload_ns),
    time("reload", t.reload, (stage) => stage.reload_ns),
    {
      id: "activation",
      title: t.activation,
      numeric: true,
      cell: (row) => quantity(row.stage.activation_bytes, bytes, t.varying),
    },
  ];
  return (
    <details open>
      <summary>
        {t.stageTable} ({number(rows.length)})
      </summary>
      <p class="field-help">{t.timesNote}</p>
      <SortableTable
        caption={t.stageTable}
        columns={columns}
        rows={rows}
        rowKey={(row) => String(row.index)}
      />
    </details>
  );
}

/** The feasible placement of the least bound: the most promising one. */
function bestOf(placements: readonly PlacementPreview[]): PlacementPreview | undefined {
  return [...placements].sort(
    (a, b) => Number(b.feasible) - Number(a.feasible) || a.lower_bound_ns - b.lower_bound_ns,
  )[0];
}

function stagesOn(problem: ProblemPreview, device: number): number[] {
  return problem.stages.flatMap((stage, index) => (stage.device === device ? [index] : []));
}

function quantity(
  value: Quantity | undefined,
  shown: (value: number) => string,
  varying: string,
): string {
  if (Array.isArray(value)) {
    return varying;
  }
  return value === undefined || value === 0 ? "–" : shown(value);
}
