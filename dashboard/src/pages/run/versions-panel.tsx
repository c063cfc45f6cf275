import { useMemo } from "preact/hooks";
import type { RunVersion, RunView } from "../../api/types";
import { DateTime } from "../../components/date-time";
import { type Column, figures, measured, SortableTable } from "../../components/sortable-table";
import { Empty } from "../../components/states";
import { number } from "../../format";
import { type Messages, texts } from "../../i18n";
import { href } from "../../route";
import { VersionBadge } from "../runs/badges";
import { runWord } from "../runs/words";
import { Gain } from "./gain";

/** All versions of the plan: why each was made, what it promised, and what it held. */
export function VersionsPanel(props: { run: RunView }) {
  const messages = texts();
  const t = messages.runs.versions;
  const { run } = props;
  const columns = useMemo(
    () => columnsOf(messages, run.running_version),
    [messages, run.running_version],
  );
  return (
    <section class="panel">
      <h2>{t.title}</h2>
      {run.versions.length === 0 ? (
        <Empty title={t.none} />
      ) : (
        <SortableTable
          caption={t.caption}
          columns={columns}
          rows={run.versions}
          rowKey={(version) => String(version.version)}
          rowClass={(version) => (version.version === run.running_version ? "is-marked" : "")}
        />
      )}
    </section>
  );
}

function columnsOf({ runs }: Messages, runningVersion: number | null): Column<RunVersion>[] {
  const t = runs.versions;
  const gain = (id: string, title: string, share: (version: RunVersion) => number | null) => ({
    id,
    title,
    numeric: true,
    value: share,
    cell: (version: RunVersion) => <Gain share={share(version)} />,
  });
  return [
    {
      id: "version",
      title: t.version,
      numeric: true,
      value: (version) => version.version,
      cell: (version) => version.version,
    },
    {
      id: "state",
      title: t.state,
      value: (version) => runWord("versionState", version.state),
      cell: (version) => (
        <>
          <VersionBadge state={version.state} />
          {version.version === runningVersion && <span class="fact-note">{t.runsNow}</span>}
          {version.needs_restart && <span class="fact-note">{t.restart}</span>}
        </>
      ),
    },
    {
      id: "reason",
      title: t.reason,
      value: (version) => runWord("reason", version.reason),
      cell: (version) => (
        <span class="run-reason">
          {runWord("reason", version.reason)}
          {version.copy_of !== null && <span class="fact-note">{t.copyOf(version.copy_of)}</span>}
          <span class="fact-note">
            <DateTime at={version.created_at} />
          </span>
        </span>
      ),
    },
    gain("predicted", t.predicted, (version) => version.predicted_gain),
    gain("low", t.low, (version) => version.gain_low),
    gain("measured", t.measured, (version) => version.measured_gain),
    measured("time", "makespan", t.makespan, (version) => version.makespan_ns),
    figures("published", t.published, (version) => version.published_at_iteration, number),
    figures("applies", t.applies, (version) => version.apply_at_iteration, number),
    {
      id: "ranks",
      title: t.ranks,
      numeric: true,
      value: (version) => version.acknowledged,
      cell: (version) => `${number(version.acknowledged)} / ${number(version.of)}`,
    },
    {
      id: "job",
      title: t.job,
      cell: (version) =>
        version.job_id === null ? (
          "–"
        ) : (
          <a href={href(["jobs", version.job_id])} aria-label={t.openNamed(version.version)}>
            {t.open}
          </a>
        ),
    },
  ];
}
