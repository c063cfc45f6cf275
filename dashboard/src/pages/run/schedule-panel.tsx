import { ApiError } from "../../api/client";
import { fetchRunTimeline } from "../../api/source";
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
      <Gantt key={version.version} run={run.id} version={version.version} />
    </section>
  );
}

/** The job that made a version's plan: of a plan that is published again, that of the first time. */
export function jobOf(run: Pick<RunView, "versions">, version: RunVersion): string | null {
  const original = run.versions.find((one) => one.version === version.copy_of);
  return version.job_id ?? (original ? jobOf(run, original) : null);
}

function Gantt(props: { run: string; version: number }) {
  const t = texts().runs.schedule;
  const { run, version } = props;
  const { value, error, reload } = useLoad(
    (signal) => fetchRunTimeline(run, version, signal),
    [run, version],
  );
  if (value) {
    return <GanttView timeline={value} title={t.gantt(version)} />;
  }
  if (error instanceof ApiError && error.status === 404) {
    return <Empty title={t.gone} />;
  }
  return error ? <Failure error={error} onRetry={reload} /> : <Loading what={t.loading} />;
}
