import { useMemo } from "preact/hooks";
import { BarChart } from "../../charts/bar-chart";
import { measured, SortableTable } from "../../components/sortable-table";
import { number } from "../../format";
import { texts } from "../../i18n";
import { ruleWhy, serviceName } from "../../i18n/service-text";
import { droppedRules } from "./dropped-rules";
import type { Dropped, Searched } from "./types";

/** Which rule dropped how many configurations, with examples. */
export function DroppedPanel(props: { searched: Searched; examples: readonly Dropped[] }) {
  const t = texts().training.dropped;
  const { searched, examples } = props;
  const rules = useMemo(() => droppedRules(searched), [searched]);
  const bars = useMemo(
    () => ({
      categories: rules.map((rule) => serviceName("rule", rule.rule)),
      series: [{ name: t.configurations, values: rules.map((rule) => rule.count) }],
      format: (value: number) => number(value),
    }),
    [rules, t],
  );
  const leftOut = Object.values(searched.left_out ?? {}).reduce((sum, count) => sum + count, 0);
  return (
    <section class="panel">
      <h2>{t.title}</h2>
      <p>
        {t.counts(number(searched.enumerated), number(searched.worked_out), number(searched.fits))}{" "}
        {searched.complete ? t.complete : t.incomplete}
        {leftOut > 0 && ` ${t.leftOut(number(leftOut))}`}
      </p>
      {rules.length > 0 && (
        <>
          <BarChart title={t.chart} label={t.chart} bars={bars} />
          <SortableTable
            caption={t.rules}
            columns={[
              {
                id: "rule",
                title: t.rule,
                cell: (row) => serviceName("rule", row.rule),
                value: (row) => row.rule,
              },
              {
                id: "count",
                title: t.configurations,
                cell: (row) => number(row.count),
                value: (row) => row.count,
                numeric: true,
              },
              { id: "why", title: t.why, cell: (row) => ruleWhy(row.rule, row.why) },
            ]}
            rows={rules}
            rowKey={(row) => row.rule}
          />
        </>
      )}
      {examples.length > 0 && <Examples examples={examples} />}
    </section>
  );
}

function Examples(props: { examples: readonly Dropped[] }) {
  const t = texts().training.dropped;
  const rows = props.examples.map((example, index) => ({ ...example, index }));
  return (
    <>
      <h3>{t.examples}</h3>
      <SortableTable
        caption={t.examples}
        columns={[
          {
            id: "configuration",
            title: t.configuration,
            cell: (row) => row.configuration,
            value: (row) => row.configuration,
          },
          {
            id: "rule",
            title: t.rule,
            cell: (row) => serviceName("rule", row.rule),
            value: (row) => row.rule,
          },
          measured<Dropped & { index: number }>("time", "bound", t.bound, (row) => row.bound_ns),
          measured<Dropped & { index: number }>(
            "bytes",
            "needs",
            t.needs,
            (row) => row.bytes,
            "memory",
          ),
          measured<Dropped & { index: number }>(
            "bytes",
            "of",
            t.of,
            (row) => row.limit_bytes,
            "memory",
          ),
          {
            id: "detail",
            title: t.detail,
            cell: (row) =>
              row.detail ? <span lang="en">{row.detail}</span> : ruleWhy(row.rule, row.why),
          },
        ]}
        rows={rows}
        rowKey={(row) => String(row.index)}
      />
    </>
  );
}
