/** What a sharding plan chooses among, and what a training plan searches. */

import { type Column, SortableTable } from "../../components/sortable-table";
import { bytes, number } from "../../format";
import { texts } from "../../i18n";
import { serviceName } from "../../i18n/service-text";
import { Assumptions, Fact, SolverOptions } from "./preview-parts";
import type { ShardingPreview, TrainingPreview } from "./preview-types";

const MOST_OPERATORS = 200;

export function ShardingResolved(props: { preview: ShardingPreview }) {
  const t = texts().form.check;
  const { graph, devices, operators, options, warnings, assumptions } = props.preview;
  const kinds = new Map(graph.operators.map((operator) => [operator.name, operator.kind]));
  const columns: Column<ShardingPreview["operators"][number]>[] = [
    { id: "name", title: t.operator, cell: (row) => row.name },
    { id: "kind", title: t.operatorKind, cell: (row) => kinds.get(row.name) ?? "–" },
    {
      id: "count",
      title: t.strategies,
      numeric: true,
      cell: (row) => number(row.strategies.length),
      value: (row) => row.strategies.length,
    },
  ];
  const limits = props.preview.memory_limits.map((limit) =>
    limit === null ? t.noLimit : bytes(limit),
  );
  return (
    <>
      <dl class="facts">
        <Fact title={t.devices}>{number(devices.count)}</Fact>
        <Fact title={t.memoryLimits}>{[...new Set(limits)].join(", ")}</Fact>
        <Fact title={t.operators}>{number(operators.length)}</Fact>
        <Fact title={t.layers}>{number(graph.repeat?.count ?? 1)}</Fact>
        <Fact title={t.choices}>
          {number(operators.reduce((sum, operator) => sum + operator.strategies.length, 0))}
        </Fact>
      </dl>
      <Warnings warnings={warnings} />
      <details>
        <summary>
          {t.operators} ({number(operators.length)})
        </summary>
        {operators.length > MOST_OPERATORS && (
          <p class="field-help">{t.shown(MOST_OPERATORS, operators.length)}</p>
        )}
        <SortableTable
          caption={t.operators}
          columns={columns}
          rows={operators.slice(0, MOST_OPERATORS)}
          rowKey={(row) => row.name}
        />
      </details>
      <Assumptions assumptions={assumptions} />
      <SolverOptions options={options} />
    </>
  );
}

export function TrainingResolved(props: { preview: TrainingPreview }) {
  const t = texts().form.check;
  const { devices, enumerated, left_out, options, assumptions } = props.preview;
  const leftOut = Object.entries(left_out);
  return (
    <>
      <dl class="facts">
        <Fact title={t.gpus}>{devices.map((count) => number(count)).join(", ")}</Fact>
        <Fact title={t.configurations}>{number(enumerated)}</Fact>
        {leftOut.length > 0 && (
          <Fact title={t.leftOut}>
            {leftOut
              .map(([rule, count]) => `${serviceName("rule", rule)}: ${number(count)}`)
              .join(", ")}
          </Fact>
        )}
      </dl>
      <Assumptions assumptions={assumptions} />
      <SolverOptions options={options} />
    </>
  );
}

function Warnings(props: { warnings: readonly string[] }) {
  const t = texts().form.check;
  if (props.warnings.length === 0) {
    return null;
  }
  return (
    <div class="banner banner-stale">
      <p class="state-title">{t.warnings}</p>
      <ul lang="en">
        {props.warnings.map((warning) => (
          <li key={warning}>{warning}</li>
        ))}
      </ul>
    </div>
  );
}
