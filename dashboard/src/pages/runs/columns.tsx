/** The columns of the list of runs. */

import type { RunItem } from "../../api/types";
import { Age } from "../../components/age";
import { type Column, figures } from "../../components/sortable-table";
import { number } from "../../format";
import type { Messages } from "../../i18n";
import { href } from "../../route";
import { Gain } from "../run/gain";
import { RunBadge, VersionBadge } from "./badges";
import { runName, runWord } from "./words";

export function columnsOf({ runs: t }: Messages): Column<RunItem>[] {
  return [
    {
      id: "state",
      title: t.columns.state,
      value: (run) => runWord("runState", run.state),
      cell: (run) => <RunBadge state={run.state} />,
    },
    {
      id: "name",
      title: t.columns.name,
      value: (run) => runName(run).toLowerCase(),
      cell: (run) => (
        <a class="job-name" href={href(["runs", run.id])} title={run.name ?? run.id}>
          {run.name ? run.name : <code>{runName(run)}</code>}
        </a>
      ),
    },
    {
      id: "model",
      title: t.columns.model,
      value: (run) => run.model,
      cell: (run) => (
        <span class="run-model" title={run.model ?? ""}>
          {run.model ?? "–"}
        </span>
      ),
    },
    figures("iteration", t.columns.iteration, (run) => run.newest_iteration, number),
    {
      id: "running",
      title: t.columns.running,
      value: (run) => run.running_version,
      cell: (run) => (run.running_version === null ? "–" : t.version(run.running_version)),
    },
    {
      id: "gain",
      title: t.columns.gain,
      numeric: true,
      value: gainOf,
      cell: (run) => {
        const share = gainOf(run);
        return share === null ? (
          "–"
        ) : (
          <>
            <Gain share={share} />{" "}
            <span class="faint small">
              {run.measured_gain === null ? t.predictedGain : t.measuredGain}
            </span>
          </>
        );
      },
    },
    {
      id: "newest",
      title: t.columns.newest,
      value: (run) => run.newest_version,
      cell: (run) =>
        run.newest_version === null || run.newest_state === null ? (
          <span class="faint">{t.noVersion}</span>
        ) : (
          <>
            {t.version(run.newest_version)} <VersionBadge state={run.newest_state} />
          </>
        ),
    },
    figures("applies", t.columns.applies, (run) => run.apply_at_iteration, number),
    {
      id: "news",
      title: t.columns.news,
      value: (run) => (run.telemetry_at === null ? null : -Date.parse(run.telemetry_at)),
      cell: (run) =>
        run.telemetry_at === null ? (
          <span class="faint">{t.noNews}</span>
        ) : (
          <Age at={run.telemetry_at} />
        ),
    },
    {
      id: "created",
      title: t.columns.created,
      value: (run) => -Date.parse(run.created_at),
      cell: (run) => <Age at={run.created_at} />,
    },
  ];
}

function gainOf(run: RunItem): number | null {
  return run.measured_gain ?? run.predicted_gain;
}
