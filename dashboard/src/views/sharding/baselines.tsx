import { useMemo, useState } from "preact/hooks";
import { BarChart } from "../../charts/bar-chart";
import type { Bars } from "../../charts/bars";
import { known, yesNo } from "../../components/fact";
import { type Column, measured, SortableTable } from "../../components/sortable-table";
import { percent } from "../../format";
import { texts } from "../../i18n";
import { serviceName } from "../../i18n/service-text";
import { type BaselineRow, baselineRows } from "./baseline-rows";
import { differences } from "./front-data";
import { type Planned, strategiesOf } from "./model";
import { StrategiesBeside } from "./strategies-beside";

/** The plan against other ways to split the same graph at the same costs. */
export function Baselines(props: { part: Planned }) {
  const { part } = props;
  const t = texts().sharding.baselines;
  const rows = useMemo(() => baselineRows(part, t.plan), [part, t]);
  if (rows.length < 2) {
    return (
      <section class="panel">
        <h2>{t.title}</h2>
        <p class="faint">{t.none}</p>
      </section>
    );
  }
  return (
    <section class="panel">
      <h2>{t.title}</h2>
      <BaselineCharts rows={rows} limit={part.plan.device_memory_bytes ?? null} />
      <SortableTable
        caption={t.title}
        columns={columns()}
        rows={rows}
        rowKey={(row) => row.key}
        rowClass={(row) => (row.isPlan ? "is-marked" : "")}
        rowDetail={(row) => row.note && <p class="row-note">{row.note}</p>}
      />
      <BaselineStrategies part={part} />
      <details>
        <summary>{t.details}</summary>
        <dl class="shard-models">
          {(part.baselines ?? []).map((one) => (
            <div key={one.name}>
              <dt>{serviceName("baseline", one.name)}</dt>
              <dd>
                <span class="faint">{t.modelled}: </span>
                {one.modelled}
              </dd>
              <dd>
                <span class="faint">{t.notModelled}: </span>
                {one.not_modelled}
              </dd>
            </div>
          ))}
        </dl>
      </details>
    </section>
  );
}

function BaselineCharts(props: { rows: readonly BaselineRow[]; limit: number | null }) {
  const t = texts().sharding;
  const charts = useMemo(() => {
    const rows = props.rows.filter((row) => row.isApplicable);
    const bars = (
      title: string,
      value: (row: BaselineRow) => number | null,
      rest: Partial<Bars>,
    ) => ({
      title,
      bars: {
        categories: rows.map((row) => serviceName("baseline", row.name)),
        series: [{ name: title, values: rows.map(value) }],
        marked: [0],
        labelWidth: 170,
        ...rest,
      },
    });
    const limit = props.limit === null ? null : { value: props.limit, name: t.baselines.limit };
    return [
      bars(t.facts.peak, (row) => row.peakBytes, { measure: "bytes", limit }),
      bars(t.operators.sent, (row) => row.sentBytes, { measure: "bytes" }),
      bars(t.facts.redundant, (row) => row.redundantBytes, { measure: "bytes" }),
      bars(t.facts.throughput, (row) => row.throughput, {
        format: (value) => percent(value, 0),
      }),
    ];
  }, [props.rows, props.limit, t]);
  return (
    <div class="grid">
      {charts.map(({ title, bars }) => (
        <BarChart key={title} title={title} label={`${title}: ${t.baselines.chart}`} bars={bars} />
      ))}
    </div>
  );
}

function BaselineStrategies(props: { part: Planned }) {
  const t = texts().sharding.baselines;
  const { instance, plan, baselines = [] } = props.part;
  const offered = baselines.filter((one) => one.strategies?.length === instance.operators.length);
  const [name, setName] = useState(offered[0]?.name ?? "");
  const chosen = offered.find((one) => one.name === name);
  if (!chosen?.strategies) {
    return null;
  }
  const own = strategiesOf(instance, plan.choice);
  const different = differences(own, chosen.strategies).length;
  return (
    <details>
      <summary>{t.beside}</summary>
      <p class="row">
        <label>
          {t.choose}{" "}
          <select value={name} onChange={(event) => setName(event.currentTarget.value)}>
            {offered.map((one) => (
              <option key={one.name} value={one.name}>
                {serviceName("baseline", one.name)}
              </option>
            ))}
          </select>
        </label>
        <span class="faint">{t.differs(different, own.length)}</span>
      </p>
      <StrategiesBeside
        operators={instance.operators.map((one) => one.name)}
        left={own}
        right={chosen.strategies}
        rightTitle={serviceName("baseline", chosen.name)}
      />
    </details>
  );
}

function columns(): Column<BaselineRow>[] {
  const t = texts().sharding;
  return [
    {
      id: "name",
      title: t.baselines.name,
      cell: (row) => (row.isPlan ? <strong>{row.name}</strong> : serviceName("baseline", row.name)),
      value: (row) => row.name,
    },
    {
      id: "fits",
      title: t.baselines.fits,
      cell: (row) => (row.isApplicable ? yesNo(row.fits) : t.baselines.notApplicable),
      value: (row) => row.fits,
    },
    measured("bytes", "peak", t.baselines.peak, (row) => row.peakBytes, "memory"),
    measured("bytes", "kept", t.baselines.kept, (row) => row.keptBytes, "memory"),
    measured("bytes", "redundant", t.facts.redundant, (row) => row.redundantBytes),
    measured("bytes", "communication", t.facts.communication, (row) => row.communicationBytes),
    measured("bytes", "resharding", t.facts.resharding, (row) => row.reshardingBytes),
    measured("bytes", "objective", t.facts.objective, (row) => row.objective),
    measured("time", "step", t.baselines.step, (row) => row.stepNs),
    {
      id: "throughput",
      title: t.baselines.throughput,
      cell: (row) => known(row.throughput, (value) => percent(value, 1)) ?? "–",
      value: (row) => row.throughput,
      numeric: true,
    },
  ];
}
