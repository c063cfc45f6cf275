/** A table whose columns can be sorted by a click or a key. */

import { type ComponentChildren, Fragment } from "preact";
import { useMemo, useState } from "preact/hooks";

export interface Column<Row> {
  id: string;
  title: string;
  /** What is shown; text where there is no more to it. */
  cell: (row: Row) => ComponentChildren;
  /** What is sorted by; a column without it is not sorted. Null comes last. */
  value?: (row: Row) => number | string | boolean | null;
  numeric?: boolean;
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

type Order = { id: string; descending: boolean } | null;

export function SortableTable<Row>(props: Props<Row>) {
  const [order, setOrder] = useState<Order>(
    props.sortedBy ? { id: props.sortedBy, descending: false } : null,
  );
  const rows = sorted(props.rows, props.columns, order);
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: a region that scrolls has to be reached by keys.
    <section class="table-frame" tabIndex={0} aria-label={props.caption}>
      <table>
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
                    {column.title}
                    <span aria-hidden="true">{mark(column.id, order)}</span>
                  </button>
                ) : (
                  column.title
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
                <TableRow row={row} columns={props.columns} look={props.rowClass?.(row) ?? ""} />
                {detail !== null && (
                  <tr>
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

/** Made again only if it changes: where columns and rows stay the same objects, little is done. */
function TableRow<Row>(props: { row: Row; columns: readonly Column<Row>[]; look: string }) {
  const { row, columns, look } = props;
  return useMemo(
    () => (
      <tr class={look}>
        {columns.map((column) => (
          <td key={column.id} class={column.numeric ? "numeric" : ""}>
            {column.cell(row)}
          </td>
        ))}
      </tr>
    ),
    [row, columns, look],
  );
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
    return " ↕";
  }
  return order.descending ? " ↓" : " ↑";
}
