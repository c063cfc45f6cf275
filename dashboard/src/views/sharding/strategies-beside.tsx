import { type Column, SortableTable } from "../../components/sortable-table";
import { texts } from "../../i18n";
import { chartColours, isDark } from "../../palette";
import { SplitBadge } from "./glyph";
import { splitOf } from "./split";

interface Row {
  index: number;
  operator: string;
  left: string;
  right: string;
}

/** The strategies of the plan beside those of another one, operator by operator. */
export function StrategiesBeside(props: {
  operators: readonly string[];
  left: readonly string[];
  right: readonly string[];
  rightTitle: string;
}) {
  const t = texts().sharding;
  const colours = chartColours(isDark.value);
  const rows = props.operators.map((operator, index) => ({
    index,
    operator,
    left: props.left[index] ?? "",
    right: props.right[index] ?? "",
  }));
  const strategy = (id: "left" | "right", title: string): Column<Row> => ({
    id,
    title,
    cell: (row) => <SplitBadge split={splitOf(row[id])} strategy={row[id]} colours={colours} />,
    value: (row) => row[id],
  });
  return (
    <SortableTable
      caption={`${t.front.ofPlan} – ${props.rightTitle}`}
      columns={[
        {
          id: "operator",
          title: t.operators.operator,
          cell: (row) => row.operator,
          value: (row) => row.operator,
        },
        strategy("left", t.front.ofPlan),
        strategy("right", props.rightTitle),
        {
          id: "comparison",
          title: t.baselines.comparison,
          cell: (row) =>
            row.left === row.right ? (
              <span class="faint">= {t.baselines.same}</span>
            ) : (
              <strong>≠ {t.baselines.other}</strong>
            ),
          value: (row) => row.left === row.right,
        },
      ]}
      rows={rows}
      rowKey={(row) => String(row.index)}
    />
  );
}
