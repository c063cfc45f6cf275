/** Who is short of how much memory, and the ways out. */

import { useMemo } from "preact/hooks";
import type { Kind, ResultDocument } from "../../api/types";
import { type Column, SortableTable } from "../../components/sortable-table";
import { bytes } from "../../format";
import { type Messages, texts } from "../../i18n";
import type { JsonObject } from "../../pages/new/json-text";
import { AskAgain } from "./ask-again";
import { type Shortage, type ShortRow, shortageOf, type Way } from "./shortage";

type Texts = Messages["job"]["infeasible"];
type Part = Shortage["parts"][number];

export function Infeasible(props: {
  document: ResultDocument;
  kind: Kind;
  /** What was asked for; null where it is not known. */
  request: JsonObject | null;
}) {
  const messages = texts();
  const t = messages.job.infeasible;
  const shortage = useMemo(
    () => shortageOf(props.document, props.kind, messages, bytes),
    [props.document, props.kind, messages],
  );
  return (
    <>
      <section class="panel panel-warn">
        <h2>{t.title}</h2>
        <p lang={shortage.isEnglish ? "en" : undefined}>{shortage.summary}</p>
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
              <div key={fact.name}>
                <dt>{fact.name}</dt>
                <dd>{fact.value}</dd>
              </div>
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
            columns={wayColumns(t, shortage.remedies, props.kind, props.request)}
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

function wayColumns(
  t: Texts,
  ways: readonly Way[],
  kind: Kind,
  request: JsonObject | null,
): Column<Way>[] {
  const hasBasis = ways.some((way) => way.basis !== "");
  const canAsk = request !== null && ways.some((way) => way.requestChanges !== null);
  return [
    { id: "change", title: t.remedy, cell: (way) => way.change },
    {
      id: "fits",
      title: t.fits,
      value: (way) => (way.fits === null ? null : !way.fits),
      cell: (way) => <Fits fits={way.fits} t={t} />,
    },
    ...(canAsk
      ? [
          {
            id: "again",
            title: t.again,
            cell: (way: Way) =>
              way.requestChanges && (
                <AskAgain
                  kind={kind}
                  request={request}
                  changes={way.requestChanges}
                  change={way.change}
                />
              ),
          },
        ]
      : []),
    {
      id: "detail",
      title: t.detail,
      cell: (way) => <span lang={way.isEnglish ? "en" : undefined}>{way.detail}</span>,
    },
    ...(hasBasis
      ? [
          {
            id: "basis",
            title: t.basis,
            cell: (way: Way) => (
              <span class="faint" lang="en">
                {way.basis}
              </span>
            ),
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
