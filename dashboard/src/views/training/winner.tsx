import { type Column, measured, SortableTable } from "../../components/sortable-table";
import { number, percent } from "../../format";
import { texts } from "../../i18n";
import { memoryPart, STEP_PARTS, type StepPart, stepPart, usedMemoryParts } from "./parts";
import { MemoryBars, StepBars } from "./plan-bars";
import type { RankMemory, StepTime, TrainedPlan } from "./types";

/** The best plan's step time and memory, as bars and as tables. */
export function Winner(props: { plan: TrainedPlan }) {
  const { plan } = props;
  const t = texts().training;
  return (
    <>
      {plan.step_time && (
        <section class="panel">
          <h2>{t.step.title}</h2>
          <StepBars title={t.step.chart} step={plan.step_time} />
          <p class="faint">{t.step.predictedNote}</p>
          <StepTable step={plan.step_time} />
        </section>
      )}
      {plan.memory_per_rank && (
        <section class="panel">
          <h2>{t.memory.title}</h2>
          <MemoryBars
            title={t.memory.chart}
            ranks={plan.memory_per_rank}
            limit={plan.limit_bytes}
          />
          <MemoryTable ranks={plan.memory_per_rank} />
        </section>
      )}
    </>
  );
}

function StepTable(props: { step: StepTime }) {
  const t = texts().training.step;
  const { step } = props;
  const total = STEP_PARTS.reduce((sum, part) => sum + stepPart(step, part), 0);
  return (
    <SortableTable<StepPart>
      caption={t.table}
      columns={[
        {
          id: "part",
          title: t.part,
          cell: (part) => t.parts[part],
          value: (part) => t.parts[part],
        },
        measured("time", "time", t.time, (part) => stepPart(step, part)),
        {
          id: "share",
          title: t.share,
          cell: (part) => percent(total > 0 ? stepPart(step, part) / total : 0, 1),
          value: (part) => stepPart(step, part),
          numeric: true,
        },
        { id: "basis", title: t.basis, cell: (part) => step.basis?.[part] ?? "" },
      ]}
      rows={STEP_PARTS}
      rowKey={(part) => part}
    />
  );
}

function MemoryTable(props: { ranks: readonly RankMemory[] }) {
  const t = texts().training.memory;
  const { ranks } = props;
  const figure = (
    id: string,
    title: string,
    value: (rank: RankMemory) => number,
    format: (value: number) => string,
  ): Column<RankMemory> => ({
    id,
    title,
    cell: (rank) => format(value(rank)),
    value,
    numeric: true,
  });
  return (
    <SortableTable
      caption={t.table}
      columns={[
        figure("rank", t.deviceColumn, (rank) => rank.rank, number),
        figure("layers", t.layers, (rank) => rank.layers, number),
        figure(
          "inFlight",
          t.inFlight,
          (rank) => rank.micro_batches_in_flight,
          (value) => number(value, 1),
        ),
        measured<RankMemory>("bytes", "total", t.total, (rank) => rank.total_bytes, "memory"),
        measured<RankMemory>(
          "bytes",
          "headroom",
          t.headroom,
          (rank) => rank.headroom_bytes,
          "memory",
        ),
        ...usedMemoryParts(ranks).map((part) =>
          measured<RankMemory>("bytes", part, t.parts[part], (rank) => memoryPart(rank, part)),
        ),
        ...(ranks.some((rank) => rank.offloaded_bytes)
          ? [
              measured<RankMemory>(
                "bytes",
                "offloaded",
                t.offloaded,
                (rank) => rank.offloaded_bytes ?? 0,
              ),
            ]
          : []),
      ]}
      rows={ranks}
      rowKey={(rank) => String(rank.rank)}
    />
  );
}
