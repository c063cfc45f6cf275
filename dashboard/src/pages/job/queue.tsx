import type { JobView, ProgressStep } from "../../api/types";
import { Age } from "../../components/age";
import { texts } from "../../i18n";
import { now, serviceTime } from "../../live/clock";

const LONG_MS = 60_000;

/** What a queued job waits for. */
export function Queue(props: { job: JobView; steps: readonly ProgressStep[] }) {
  const t = texts().job.queue;
  const { job } = props;
  const place = job.queue_position;
  const isLong = serviceTime(now.value).getTime() - Date.parse(job.created_at) > LONG_MS;
  const wentBack = props.steps.findLast((step) => step.detail !== null)?.detail;
  return (
    <section class="panel">
      <h2>{t.title}</h2>
      <p role="status">
        {t.which(job.queue)} {place !== null && (place <= 1 ? t.next : t.before(place - 1))}
      </p>
      <p class="faint">
        {texts().job.facts.created}: <Age at={job.created_at} />
      </p>
      {wentBack && (
        <p>
          {t.again} {wentBack}
        </p>
      )}
      {isLong && <p class="banner banner-stale">{t.long}</p>}
    </section>
  );
}
