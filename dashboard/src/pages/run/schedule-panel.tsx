import { ApiError } from "../../api/client";
import { fetchTimeline } from "../../api/source";
import type { RunVersion, RunView } from "../../api/types";
import { Empty, Failure, Loading } from "../../components/states";
import { texts } from "../../i18n";
import { href } from "../../route";
import { useLoad } from "../../use-load";
import { GanttView } from "../../views/gantt";
import { runningVersion } from "./headline";

/** The running plan over time; the newest one where none runs yet. */
export function SchedulePanel(props: { run: RunView }) {
  const t = texts().runs.schedule;
  const { run } = props;
  const version = runningVersion(run) ?? run.versions[0];
  if (!version) {
    return null;
  }
  const jobId = jobOf(run, version);
  return (
    <section class="panel">
      <div class="row">
        <h2>{t.title}</h2>
        {jobId !== null && <a href={href(["jobs", jobId])}>{t.whole}</a>}
      </div>
      {jobId === null ? (
        <Empty title={t.noJob} />
      ) : (
        <Gantt key={jobId} jobId={jobId} title={t.gantt(version.version)} />
      )}
    </section>
  );
}

/** The job that made a version's plan: of a plan that is published again, that of the first time. */
export function jobOf(run: Pick<RunView, "versions">, version: RunVersion): string | null {
  const original = run.versions.find((one) => one.version === version.copy_of);
  return version.job_id ?? (original ? jobOf(run, original) : null);
}

function Gantt(props: { jobId: string; title: string }) {
  const t = texts().runs.schedule;
  const { value, error, reload } = useLoad(
    (signal) => fetchTimeline(props.jobId, undefined, signal),
    [props.jobId],
  );
  if (value) {
    return <GanttView timeline={value} title={props.title} />;
  }
  if (error instanceof ApiError && error.status === 404) {
    return <Empty title={t.gone} />;
  }
  return error ? <Failure error={error} onRetry={reload} /> : <Loading what={t.loading} />;
}
