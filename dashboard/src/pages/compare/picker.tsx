import { useState } from "preact/hooks";
import { ask } from "../../api/client";
import type { JobPage, JobView, Kind } from "../../api/types";
import { DateTime } from "../../components/date-time";
import { type Column, measured, SortableTable } from "../../components/sortable-table";
import { StateBadge } from "../../components/state-badge";
import { Empty, Failure, Loading } from "../../components/states";
import { texts } from "../../i18n";
import { route, setQuery } from "../../route";
import { useLoad } from "../../use-load";
import type { Side } from "./index";

const KINDS: readonly Kind[] = ["pipeline", "sharding", "training"];
const PAGE = 100;
const MOST_PAGES = 20;

interface Props {
  a: string | null;
  b: string | null;
}

/** Choose the plans that the address does not name. */
export function Picker(props: Props) {
  const t = texts();
  const kind = (route.value.query.get("kind") ?? "pipeline") as Kind;
  const missing = props.a === null ? t.compare.a : t.compare.b;
  return (
    <section class="panel">
      <div class="row">
        <h2>{t.compare.picker.choose(missing)}</h2>
        <label>
          {t.compare.picker.kind}{" "}
          <select value={kind} onChange={(event) => setQuery({ kind: event.currentTarget.value })}>
            {KINDS.map((entry) => (
              <option key={entry} value={entry}>
                {t.common.kinds[entry]}
              </option>
            ))}
          </select>
        </label>
      </div>
      <JobChoices key={kind} kind={kind} {...props} />
    </section>
  );
}

function JobChoices(props: Props & { kind: Kind }) {
  const t = texts().compare.picker;
  const [pages, setPages] = useState(1);
  const loaded = useLoad((signal) => jobsWithPlan(props.kind, pages, signal), [props.kind, pages]);
  if (loaded.error) {
    return <Failure error={loaded.error} onRetry={loaded.reload} />;
  }
  if (!loaded.value) {
    return <Loading what={t.loading} />;
  }
  const { jobs, hasMore } = loaded.value;
  return (
    <>
      {jobs.length === 0 ? (
        <Empty title={t.none} />
      ) : (
        <SortableTable
          caption={t.list}
          columns={columns(props)}
          rows={jobs}
          rowKey={(job) => job.id}
        />
      )}
      {hasMore && pages < MOST_PAGES && (
        <button type="button" disabled={loaded.isLoading} onClick={() => setPages(pages + 1)}>
          {t.more}
        </button>
      )}
    </>
  );
}

function columns(props: Props & { kind: Kind }): Column<JobView>[] {
  const t = texts().compare.picker;
  const title = (job: JobView) => job.name ?? job.id;
  return [
    {
      id: "choose",
      title: texts().common.compare,
      cell: (job) => (
        <div class="row choose">
          <SideButton side="a" job={job} chosen={props.a} />
          <SideButton side="b" job={job} chosen={props.b} />
        </div>
      ),
    },
    {
      id: "name",
      title: t.name,
      cell: (job) => <span class="job-name">{title(job)}</span>,
      value: title,
    },
    { id: "model", title: t.model, cell: modelText, value: modelText },
    { id: "state", title: t.state, cell: (job) => <StateBadge state={job.state} /> },
    measured(props.kind === "sharding" ? "bytes" : "time", "best", t.best, bestOf),
    {
      id: "finished",
      title: t.finished,
      cell: (job) => (job.finished_at ? <DateTime at={job.finished_at} /> : "–"),
      value: (job) => job.finished_at ?? null,
    },
  ];
}

function SideButton(props: { side: Side; job: JobView; chosen: string | null }) {
  const t = texts().compare;
  const { side, job } = props;
  const letter = t[side];
  const isChosen = props.chosen === job.id;
  return (
    <button
      type="button"
      class="quiet"
      aria-pressed={isChosen}
      aria-label={t.picker.useNamed(job.name ?? job.id, letter)}
      onClick={() => setQuery({ [side]: isChosen ? undefined : job.id })}
    >
      {isChosen ? `✓ ${t.picker.chosen(letter)}` : t.picker.use(letter)}
    </button>
  );
}

/** Jobs that have a plan: those that succeeded, and cancelled ones whose best was kept. */
async function jobsWithPlan(kind: Kind, pages: number, signal: AbortSignal) {
  const jobs: JobView[] = [];
  let cursor: string | null = null;
  for (let page = 0; page < pages; page += 1) {
    const query = new URLSearchParams({ kind, limit: String(PAGE) });
    if (cursor !== null) {
      query.set("cursor", cursor);
    }
    const { body } = await ask<JobPage>(`jobs?${query}`, { signal });
    jobs.push(...body.jobs.filter(hasPlan));
    cursor = body.next_cursor;
    if (cursor === null) {
      break;
    }
  }
  return { jobs, hasMore: cursor !== null };
}

function hasPlan(job: JobView): boolean {
  return job.state === "succeeded" || (job.state === "cancelled" && bestOf(job) !== null);
}

function bestOf(job: JobView): number | null {
  return job.best_makespan_ns ?? job.best_step_time_ns ?? job.best_objective_bytes ?? null;
}

function modelText(job: JobView): string {
  return job.model ?? "–";
}
