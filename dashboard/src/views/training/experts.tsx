import { useMemo } from "preact/hooks";
import { BarChart } from "../../charts/bar-chart";
import { Assumptions } from "../../components/basis";
import { Fact, known } from "../../components/fact";
import { SortableTable } from "../../components/sortable-table";
import { duration, number, percent } from "../../format";
import { texts } from "../../i18n";
import { ranges } from "../../number-runs";
import type { ExpertLayers, Experts } from "./types";

/** Which experts lie on which device, and how much work each device has of them. */
export function ExpertsPanel(props: { experts: Experts }) {
  const t = texts().training.experts;
  const { experts } = props;
  const traffic = experts.traffic;
  return (
    <section class="panel">
      <h2>{t.title}</h2>
      <dl class="facts">
        <Fact name={t.factor}>{number(experts.load_factor, 3)}</Fact>
        <Fact name={t.defaultFactor}>
          {known(experts.default?.load_factor, (factor) => number(factor, 3))}
        </Fact>
        <Fact name={t.time}>{duration(experts.time_s * 1e9)}</Fact>
        <Fact name={t.gain}>{known(experts.gain, (gain) => percent(gain))}</Fact>
        <Fact name={t.status}>{experts.status}</Fact>
        <Fact name={t.traffic}>
          {traffic
            ? [traffic.own_share, traffic.in_node_share, traffic.cross_node_share]
                .map((share) => percent(share, 1))
                .join(" / ")
            : null}
        </Fact>
      </dl>
      <p class="faint">{t.loadHelp}</p>
      {experts.layers.map((group) => (
        <ExpertGroup key={group.layers.join()} group={group} />
      ))}
      <Assumptions assumptions={experts.basis ?? []} isPart />
    </section>
  );
}

function ExpertGroup(props: { group: ExpertLayers }) {
  const t = texts().training.experts;
  const { group } = props;
  const bars = useMemo(
    () => ({
      categories: group.load_of_device.map((_, device) => t.deviceName(device)),
      series: [{ name: t.load, values: group.load_of_device }],
      format: (value: number) => number(value, 2),
      limit: { value: 1, name: t.even },
    }),
    [group, t],
  );
  const rows = group.experts_of_device.map((experts, device) => ({
    device,
    experts,
    load: group.load_of_device[device] ?? null,
  }));
  return (
    <>
      <BarChart title={t.layers(ranges(group.layers))} label={t.chart} bars={bars} />
      <SortableTable
        caption={`${t.table}: ${t.layers(ranges(group.layers))}`}
        columns={[
          {
            id: "device",
            title: t.device,
            cell: (row) => number(row.device),
            value: (row) => row.device,
            numeric: true,
          },
          { id: "experts", title: t.experts, cell: (row) => row.experts.join(", ") },
          {
            id: "load",
            title: t.load,
            cell: (row) => known(row.load, (load) => number(load, 3)) ?? "–",
            value: (row) => row.load,
            numeric: true,
          },
        ]}
        rows={rows}
        rowKey={(row) => String(row.device)}
      />
      {group.proof && (
        <p class="faint">
          {t.proof}: {group.proof}
        </p>
      )}
    </>
  );
}
