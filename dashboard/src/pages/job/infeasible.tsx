/** A job for which there is no plan: who is short of how much, and the ways out. */

import { useMemo } from "preact/hooks";
import type { ResultDocument } from "../../api/types";
import { type Column, SortableTable } from "../../components/sortable-table";
import { bytes } from "../../format";
import { type Messages, texts } from "../../i18n";
import { Fact } from "./facts";
import { type Shortage, type ShortRow, shortageOf, type Way } from "./shortage";

type Texts = Messages["job"]["infeasible"];
type Part = Shortage["parts"][number];

export function Infeasible(props: { document: ResultDocument; kind: string }) {
  const t = texts().job.infeasible;
  const shortage = useMemo(
    () => shortageOf(props.document, props.kind, t, bytes),
    [props.document, props.kind, t],
  );
  return (
    <>
      <section class="panel panel-warn">
        <h2>{t.title}</h2>
        <p>{shortage.summary}</p>
        <p class="faint">{t.noMatterOfTime}</p>
        <SortableTable
          caption={t.bytesTable}
          columns={rowColumns(t, shortage)}
          rows={shortage.rows}
          rowKey={(row) => row.where}
        />
        {shortage.facts.length > 0 && (
          <dl class="facts infeasible-facts">
            {shortage.facts.map((fact) => (
              <Fact key={fact.name} name={fact.name}>
                {fact.value}
              </Fact>
            ))}
          </dl>
        )}
      </section>
      {shortage.parts.length > 0 && (
        <section class="panel">
          <h2>{t.parts}</h2>
          <SortableTable
            caption={t.parts}
            columns={partColumns(t)}
            rows={shortage.parts}
            rowKey={(part) => part.what}
          />
        </section>
      )}
      <section class="panel">
        <h2>{t.remedies}</h2>
        {shortage.remedies.length === 0 ? (
          <p class="faint">{t.noRemedies}</p>
        ) : (
          <SortableTable
            caption={t.remedies}
            columns={wayColumns(t, shortage.remedies)}
            rows={shortage.remedies}
            rowKey={(way) => `${way.change} ${way.detail}`}
          />
        )}
      </section>
    </>
  );
}

function rowColumns(t: Texts, shortage: Shortage): Column<ShortRow>[] {
  const figure = (id: string, title: string, value: (row: ShortRow) => number | null) => ({
    id,
    title,
    numeric: true,
    value,
    cell: (row: ShortRow) => {
      const size = value(row);
      return size === null ? "–" : bytes(size);
    },
  });
  const hasSmallest = shortage.rows.some((row) => row.smallestBytes !== null);
  return [
    { id: "where", title: t.where, cell: (row) => row.where },
    figure("limit", t.limit, (row) => row.limitBytes),
    ...(hasSmallest ? [figure("smallest", t.smallest, (row) => row.smallestBytes)] : []),
    figure("short", t.short, shortOf),
    figure("needed", shortage.needed, (row) => row.neededBytes),
  ];
}

function shortOf(row: ShortRow): number | null {
  const wanted = row.smallestBytes ?? row.neededBytes;
  return wanted === null || row.limitBytes === null ? null : wanted - row.limitBytes;
}

function partColumns(t: Texts): Column<Part>[] {
  return [
    { id: "what", title: t.part, cell: (part) => part.what },
    {
      id: "bytes",
      title: t.size,
      numeric: true,
      value: (part) => part.bytes,
      cell: (part) => bytes(part.bytes),
    },
  ];
}

function wayColumns(t: Texts, ways: readonly Way[]): Column<Way>[] {
  const hasBasis = ways.some((way) => way.basis !== "");
  return [
    { id: "change", title: t.remedy, cell: (way) => way.change },
    {
      id: "fits",
      title: t.fits,
      value: (way) => (way.fits === null ? null : !way.fits),
      cell: (way) => <Fits fits={way.fits} t={t} />,
    },
    { id: "detail", title: t.detail, cell: (way) => way.detail },
    ...(hasBasis
      ? [
          {
            id: "basis",
            title: t.basis,
            cell: (way: Way) => <span class="faint">{way.basis}</span>,
          },
        ]
      : []),
  ];
}

function Fits(props: { fits: boolean | null; t: Texts }) {
  const { fits, t } = props;
  if (fits === null) {
    return <span class="fits">? {t.fitsUnknown}</span>;
  }
  return fits ? (
    <span class="fits fits-yes">✓ {t.fitsYes}</span>
  ) : (
    <span class="fits fits-no">✕ {t.fitsNo}</span>
  );
}
