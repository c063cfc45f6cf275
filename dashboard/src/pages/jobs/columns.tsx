/** The columns of the list of jobs. */

import type { JobView, Kind } from "../../api/types";
import { Age } from "../../components/age";
import type { Column } from "../../components/sortable-table";
import { StateBadge } from "../../components/state-badge";
import { percent } from "../../format";
import type { Messages } from "../../i18n";
import { objectiveOf, objectiveText } from "../../live/objective";
import { href } from "../../route";
import { JobActions } from "./actions";
import { type Choice, ChoiceBox } from "./choice";
import { shownName } from "./names";

export function columnsOf(
  { jobs: t, common }: Messages,
  choice: Choice,
  onChange: (job: JobView) => void,
): Column<JobView>[] {
  return [
    {
      id: "compare",
      title: t.columns.compare,
      cell: (job) => <ChoiceBox job={job} choice={choice} />,
    },
    {
      id: "state",
      title: t.columns.state,
      value: (job) => common.states[job.state],
      cell: (job) => (
        <>
          <StateBadge state={job.state} />
          {job.cancel_requested && <span class="faint"> {t.stopping}</span>}
        </>
      ),
    },
    {
      id: "name",
      title: t.columns.name,
      value: (job) => shownName(job).toLowerCase(),
      cell: (job) => (
        <a class="job-name" href={href(["jobs", job.id])} title={job.name ?? job.id}>
          {job.name ? job.name : <code>{shownName(job)}</code>}
        </a>
      ),
    },
    {
      id: "kind",
      title: t.columns.kind,
      value: (job) => job.kind,
      cell: (job) => t.kinds[job.kind as Kind] ?? job.kind,
    },
    {
      id: "model",
      title: t.columns.model,
      value: (job) => job.model ?? null,
      cell: (job) => (
        <span class="job-model" title={job.model ?? ""}>
          {job.model ?? "–"}
        </span>
      ),
    },
    {
      id: "engine",
      title: t.columns.engine,
      value: (job) => job.engine,
      cell: (job) => job.engine,
    },
    {
      id: "best",
      title: t.columns.best,
      numeric: true,
      value: (job) => objectiveOf(job.kind, job).best,
      cell: (job) => <Best job={job} title={t.bestOf[job.kind as Kind] ?? ""} />,
    },
    {
      id: "gap",
      title: t.columns.gap,
      numeric: true,
      value: (job) => job.gap,
      cell: (job) => (job.gap === null ? "–" : percent(job.gap)),
    },
    {
      id: "age",
      title: t.columns.age,
      value: (job) => -Date.parse(job.created_at),
      cell: (job) => <Age at={job.created_at} />,
    },
    {
      id: "queue",
      title: t.columns.queue,
      value: (job) => job.queue_position,
      cell: (job) => queuePlace(job, t),
    },
    {
      id: "tags",
      title: t.columns.tags,
      cell: (job) => <Tags tags={job.tags} />,
    },
    {
      id: "actions",
      title: t.columns.actions,
      cell: (job) => <JobActions job={job} onChange={onChange} isCompact />,
    },
  ];
}

function Best(props: { job: JobView; title: string }) {
  const { best, unit } = objectiveOf(props.job.kind, props.job);
  return best === null ? <>–</> : <span title={props.title}>{objectiveText(best, unit)}</span>;
}

function queuePlace(job: JobView, t: Messages["jobs"]): string {
  if (job.queue_position === null) {
    return "–";
  }
  return job.queue_position === 1 ? t.next : t.ofQueue(job.queue_position);
}

/** Each leads to the jobs that have it. */
export function Tags(props: { tags: readonly string[] }) {
  return (
    <span class="job-tags">
      {props.tags.map((tag) => (
        <a key={tag} class="job-tag" href={href(["jobs"], { tag })} title={tag}>
          {tag}
        </a>
      ))}
    </span>
  );
}
