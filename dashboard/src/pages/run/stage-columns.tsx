/** The columns of the tables of stages. */

import { type Column, figures, measured } from "../../components/sortable-table";
import { bytes, duration, type Measure, number, percent } from "../../format";
import { type Messages, texts } from "../../i18n";
import { runWord } from "../runs/words";
import type { ComputationRow, Drifted, QuantityRow } from "./stage-rows";

const TIMES = ["F", "B", "W"];

/** F, B and W in one unit, to be read beside one another. */
export function computationColumns({ runs }: Messages): Column<ComputationRow>[] {
  const t = runs.stages;
  return [
    stageColumn(t.stage),
    ...TIMES.map((name, index) =>
      measured<ComputationRow>("time", name, name, (row) => row.timesNs[index], "computation"),
    ),
    shares("noise", t.noise, (row) => row.noise),
    shares("confidence", t.confidence, (row) => row.confidence, 1),
    shares("against", t.against, (row) => row.against, 1),
    {
      id: "drift",
      title: t.drift,
      value: (row) => row.drifted.length > 0,
      cell: (row) => <Drifts drifted={row.drifted} none={t.noDrift} />,
    },
  ];
}

/** One quantity with all that is known of its estimate. */
export function quantityColumns({ runs }: Messages, quantity: string): Column<QuantityRow>[] {
  const t = runs.stages;
  return [
    stageColumn(t.stage),
    valued(quantity, "value", t.value, (row) => row.estimate.value),
    valued(quantity, "planned", t.planned, (row) => row.estimate.planned),
    shares("noise", t.noise, (row) => row.estimate.noise),
    shares("confidence", t.confidence, (row) => row.estimate.confidence, 1),
    counts("samples", t.samples, (row) => row.estimate.samples),
    counts("outliers", t.outliers, (row) => row.estimate.outliers),
    {
      id: "drift",
      title: t.drift,
      value: (row) => row.estimate.drift !== null,
      cell: ({ estimate: { drift } }) => (
        <Drifts drifted={drift ? [{ ...drift, quantity }] : []} none={t.noDrift} />
      ),
    },
  ];
}

/** A number of a quantity, in the unit that its name ends with. */
export function quantityText(quantity: string, value: number): string {
  switch (measureOf(quantity)) {
    case "time":
      return duration(value);
    case "bytes":
      return bytes(value);
    default:
      return percent(value, 1);
  }
}

function measureOf(quantity: string): Measure | null {
  return quantity.endsWith("_ns") ? "time" : quantity.endsWith("_bytes") ? "bytes" : null;
}

function Drifts(props: { drifted: readonly Drifted[]; none: string }) {
  if (props.drifted.length === 0) {
    return <span class="faint">{props.none}</span>;
  }
  return (
    <>
      {props.drifted.map((drifted) => (
        <Drift key={drifted.quantity} drifted={drifted} />
      ))}
    </>
  );
}

function Drift(props: { drifted: Drifted }) {
  const { quantity, before, after, since } = props.drifted;
  return (
    <span class="drift">
      {texts().runs.stages.drifted(
        runWord("quantity", quantity),
        quantityText(quantity, before),
        quantityText(quantity, after),
        number(since),
      )}
    </span>
  );
}

function stageColumn<Row extends { stage: number }>(title: string): Column<Row> {
  return { id: "stage", title, numeric: true, value: (row) => row.stage, cell: (row) => row.stage };
}

function valued(
  quantity: string,
  id: string,
  title: string,
  value: (row: QuantityRow) => number | null,
): Column<QuantityRow> {
  const measure = measureOf(quantity);
  return measure === null
    ? shares(id, title, value, 1)
    : measured(measure, id, title, value, "value");
}

function shares<Row>(
  id: string,
  title: string,
  value: (row: Row) => number | null,
  digits = 2,
): Column<Row> {
  return figures(id, title, value, (share) => percent(share, digits));
}

function counts<Row>(id: string, title: string, value: (row: Row) => number | null): Column<Row> {
  return figures(id, title, value, number);
}
