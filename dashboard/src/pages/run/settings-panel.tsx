import type { RunView } from "../../api/types";
import { Fact } from "../../components/fact";
import { measured, SortableTable } from "../../components/sortable-table";
import { bytes, duration, number, percent } from "../../format";
import { texts } from "../../i18n";

type AdaptedStage = RunView["adapted"]["stages"][number];

/** How the run is followed, and settings of offloading as measured. */
export function SettingsPanel(props: { run: RunView }) {
  const t = texts().runs.settings;
  const { settings, adapted } = props.run;
  const tolerance = adapted.backward_delay_tolerance_ns;
  const iterations = (count: number) => t.iterations(number(count));
  return (
    <details class="panel">
      <summary>
        <h2>{t.title}</h2>
      </summary>
      <dl class="facts">
        <Fact name={t.resolve_every}>{iterations(settings.resolve_every)}</Fact>
        <Fact name={t.warm_up}>{iterations(settings.warm_up)}</Fact>
        <Fact name={t.window}>{iterations(settings.window)}</Fact>
        <Fact name={t.min_gain}>{percent(settings.min_gain, 1)}</Fact>
        <Fact name={t.memory_headroom}>{percent(settings.memory_headroom, 1)}</Fact>
        <Fact name={t.swap_lead}>{iterations(settings.swap_lead)}</Fact>
        <Fact name={t.solve_time_limit_s}>
          {t.seconds(number(settings.solve_time_limit_s, 1, 0))}
        </Fact>
        <Fact name={t.link_busy_limit}>{percent(settings.link_busy_limit, 0)}</Fact>
        <Fact name={t.measure_over}>{iterations(settings.measure_over)}</Fact>
        <Fact name={t.cool_down}>{iterations(settings.cool_down ?? settings.resolve_every)}</Fact>
        <Fact name={t.tolerance}>{tolerance === null ? null : duration(tolerance)}</Fact>
      </dl>
      {adapted.stages.length > 0 && <Offloads stages={adapted.stages} />}
    </details>
  );
}

function Offloads(props: { stages: readonly AdaptedStage[] }) {
  const t = texts().runs.settings;
  const { perSecond } = texts().diagnosis;
  return (
    <SortableTable<AdaptedStage>
      caption={t.chunks}
      rows={props.stages}
      rowKey={(row) => String(row.stage)}
      columns={[
        { id: "stage", title: texts().runs.stages.stage, numeric: true, cell: (row) => row.stage },
        {
          id: "rate",
          title: t.rate,
          numeric: true,
          cell: (row) => perSecond(bytes(row.offload_bytes_per_s)),
        },
        {
          id: "factor",
          title: t.factor,
          numeric: true,
          cell: (row) => number(row.offload_time_factor, 3),
        },
        measured<AdaptedStage>("bytes", "chunk", t.chunk, (row) => row.chunk_bytes),
      ]}
    />
  );
}
