/** A table whose columns can be sorted by a click or a key. */

import { type ComponentChildren, Fragment } from "preact";
import { useMemo, useState } from "preact/hooks";
import { exact, type Measure, scaled, scaleOf } from "../format";

export interface Column<Row> {
  id: string;
  title: string;
  /** What is shown; `write` puts a figure in the column's unit where it has a measure. */
  cell: (row: Row, write: (value: number) => string) => ComponentChildren;
  /** What is sorted by; a column without it is not sorted. Null comes last. */
  value?: (row: Row) => number | string | boolean | null;
  numeric?: boolean;
  /** What the values are: the largest chooses the unit of the column, which is in its heading. */
  measure?: Measure;
  /** Columns of one group are read beside one another and have one unit. */
  group?: string;
}

/** A column of bytes or of times in nanoseconds; the exact figure is shown at the pointer. */
export function measured<Row>(
  measure: Measure,
  id: string,
  title: string,
  value: (row: Row) => number | null | undefined,
  group = id,
): Column<Row> {
  return {
    id,
    title,
    measure,
    group,
    numeric: true,
    value: (row) => value(row) ?? null,
    cell: (row, write) => {
      const figure = value(row) ?? null;
      return figure === null ? "–" : <span title={exact(measure, figure)}>{write(figure)}</span>;
    },
  };
}

/** A column of figures that are written the same way, a dash where there is none. */
export function figures<Row>(
  id: string,
  title: string,
  value: (row: Row) => number | null,
  write: (figure: number) => string,
): Column<Row> {
  return {
    id,
    title,
    numeric: true,
    value,
    cell: (row) => {
      const figure = value(row);
      return figure === null ? "–" : write(figure);
    },
  };
}

interface Props<Row> {
  caption: string;
  columns: readonly Column<Row>[];
  rows: readonly Row[];
  rowKey: (row: Row) => string;
  rowClass?: (row: Row) => string;
  /** The column sorted by at first; without it the rows keep their order. */
  sortedBy?: string;
  /** What is shown below a row, over its whole width; nothing for null. */
  rowDetail?: (row: Row) => ComponentChildren;
}

/** The unit of each column that has one, and how its figures are written in it. */
type Units = ReadonlyMap<string, { name: string; write: (value: number) => string }>;

/** Tables of more columns are set closer, or they would be wider than the page. */
const MOST_ROOMY = 11;

type Order = { id: string; descending: boolean } | null;

export function SortableTable<Row>(props: Props<Row>) {
  const [order, setOrder] = useState<Order>(
    props.sortedBy ? { id: props.sortedBy, descending: false } : null,
  );
  const rows = sorted(props.rows, props.columns, order);
  const units = useMemo(() => unitsOf(props.columns, props.rows), [props.columns, props.rows]);
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: a region that scrolls has to be reached by keys.
    <section class="table-frame" tabIndex={0} aria-label={props.caption}>
      <table class={props.columns.length > MOST_ROOMY ? "dense" : ""}>
        <caption class="visually-hidden">{props.caption}</caption>
        <thead>
          <tr>
            {props.columns.map((column) => (
              <th
                key={column.id}
                scope="col"
                class={column.numeric ? "numeric" : ""}
                aria-sort={sortState(column.id, order)}
              >
                {column.value ? (
                  <button
                    type="button"
                    class="sort"
                    onClick={() => setOrder(next(column.id, order))}
                  >
                    <Heading column={column} unit={units.get(column.id)?.name} />
                    <span aria-hidden="true">{mark(column.id, order)}</span>
                  </button>
                ) : (
                  <Heading column={column} unit={units.get(column.id)?.name} />
                )}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map((row) => {
            const detail = props.rowDetail?.(row) ?? null;
            return (
              <Fragment key={props.rowKey(row)}>
                <TableRow
                  row={row}
                  columns={props.columns}
                  units={units}
                  look={props.rowClass?.(row) ?? ""}
                />
                {detail !== null && (
                  <tr class="row-detail">
                    <td colSpan={props.columns.length}>{detail}</td>
                  </tr>
                )}
              </Fragment>
            );
          })}
        </tbody>
      </table>
    </section>
  );
}

function Heading<Row>(props: { column: Column<Row>; unit: string | undefined }) {
  const { column, unit } = props;
  return (
    <>
      {column.title}
      {unit && <span class="unit"> {unit}</span>}
    </>
  );
}

/** Made again only if it changes: where columns and rows stay the same objects, little is done. */
function TableRow<Row>(props: {
  row: Row;
  columns: readonly Column<Row>[];
  units: Units;
  look: string;
}) {
  const { row, columns, units, look } = props;
  return useMemo(
    () => (
      <tr class={look}>
        {columns.map((column) => (
          <td key={column.id} class={column.numeric ? "numeric" : ""}>
            {column.cell(row, units.get(column.id)?.write ?? String)}
          </td>
        ))}
      </tr>
    ),
    [row, columns, units, look],
  );
}

function unitsOf<Row>(columns: readonly Column<Row>[], rows: readonly Row[]): Units {
  const units = new Map<string, { name: string; write: (value: number) => string }>();
  for (const { id, measure, group } of columns) {
    if (measure) {
      const alike = columns.filter((one) => one.measure && one.group === group);
      const figures = alike.flatMap((one) => rows.map((row) => one.value?.(row)));
      const scale = scaleOf(
        measure,
        figures.filter((one) => typeof one === "number"),
      );
      units.set(id, { name: scale.unit.name, write: (figure) => scaled(figure, scale) });
    }
  }
  return units;
}

function sorted<Row>(rows: readonly Row[], columns: readonly Column<Row>[], order: Order) {
  const value = columns.find((column) => column.id === order?.id)?.value;
  if (!order || !value) {
    return rows;
  }
  const sign = order.descending ? -1 : 1;
  return [...rows].sort((a, b) => {
    const [left, right] = [value(a), value(b)];
    if (left === null || right === null) {
      return Number(left === null) - Number(right === null);
    }
    return left < right ? -sign : left > right ? sign : 0;
  });
}

function next(id: string, order: Order): Order {
  if (order?.id !== id) {
    return { id, descending: false };
  }
  return order.descending ? null : { id, descending: true };
}

function sortState(id: string, order: Order) {
  if (order?.id !== id) {
    return "none" as const;
  }
  return order.descending ? ("descending" as const) : ("ascending" as const);
}

function mark(id: string, order: Order): string {
  if (order?.id !== id) {
    return "\u00a0↕";
  }
  return order.descending ? "\u00a0↓" : "\u00a0↑";
}
