/** Why nothing fits into memory, and what would. */

import { type Column, SortableTable } from "../../components/sortable-table";
import { bytes } from "../../format";
import { texts } from "../../i18n";
import { serviceName } from "../../i18n/service-text";
import { AskAgain } from "../../views/infeasible/ask-again";
import { pipelineSummary } from "../../views/infeasible/shortage";
import type { Shortage } from "./preview-types";
import { form } from "./store";

type Remedy = Shortage["remedies"][number];

export function ShortageReport(props: { shortage: Shortage }) {
  const messages = texts();
  const t = messages.form.check;
  const { shortage } = props;
  const summary = pipelineSummary(shortage, messages, bytes);
  const rows = shortage.devices.map((device, index) => ({
    device,
    needed: shortage.bytes[index] ?? null,
    limit: shortage.limit_bytes[index] ?? null,
  }));
  const needs: Column<(typeof rows)[number]>[] = [
    { id: "device", title: t.device, cell: (row) => String(row.device) },
    { id: "needed", title: t.needed, numeric: true, cell: (row) => size(row.needed) },
    { id: "limit", title: t.limit, numeric: true, cell: (row) => size(row.limit) },
  ];
  return (
    <>
      <p lang={summary === null ? "en" : undefined}>{summary ?? shortage.summary}</p>
      <SortableTable
        caption={t.deviceTable}
        columns={needs}
        rows={rows}
        rowKey={(row) => String(row.device)}
      />
      <h4>{t.remedies}</h4>
      <SortableTable
        caption={t.remedies}
        columns={remedyColumns()}
        rows={shortage.remedies}
        rowKey={(row) => `${row.remedy} ${row.detail}`}
      />
    </>
  );
}

function remedyColumns(): Column<Remedy>[] {
  const t = texts().form.check;
  return [
    { id: "remedy", title: t.remedy, cell: (row) => serviceName("remedy", row.remedy) },
    { id: "fits", title: t.helps, cell: (row) => <Answer is={row.fits} /> },
    { id: "detail", title: t.detail, cell: (row) => <Detail remedy={row} /> },
  ];
}

/** What it comes to, and the way to the form with the request changed so. */
function Detail(props: { remedy: Remedy }) {
  const { remedy } = props;
  const { request_changes: changes } = remedy;
  return (
    <>
      <span lang="en">{remedy.detail}</span>{" "}
      {remedy.fits && changes && (
        <AskAgain
          kind="pipeline"
          request={form.value.sheets.pipeline.body}
          changes={changes}
          change={serviceName("remedy", remedy.remedy)}
        />
      )}
    </>
  );
}

function size(value: number | null): string {
  return value === null ? "–" : bytes(value);
}

function Answer(props: { is: boolean | null }) {
  const { common, job } = texts();
  const { is } = props;
  return (
    <span class="nowrap">
      {is === null ? `? ${job.infeasible.fitsUnknown}` : is ? `✓ ${common.yes}` : `✕ ${common.no}`}
    </span>
  );
}
