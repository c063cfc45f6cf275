/** One job: how it is getting on, and what came of it. */

import { ApiError } from "../../api/client";
import type { JobView, Kind } from "../../api/types";
import { LiveMark, StaleBanner } from "../../components/live-mark";
import { StateBadge } from "../../components/state-badge";
import { Empty, Failure, Loading } from "../../components/states";
import { texts } from "../../i18n";
import { isOver } from "../../live/objective";
import { OneJob } from "../../live/one-job";
import { useFollow } from "../../live/use-follow";
import { href } from "../../route";
import { useTitle } from "../../use-title";
import { JobActions } from "../jobs/actions";
import { shownName } from "../jobs/names";
import { Facts } from "./facts";
import { Log } from "./log";
import { Outcome } from "./outcome";
import { LiveProgress, PastProgress } from "./progress";
import { Queue } from "./queue";
import "../../styles/jobs.css";
import "../../styles/job.css";

export function JobPage(props: { id: string }) {
  const store = useFollow(() => new OneJob(props.id), [props.id]);
  const job = store.seen.value?.job;
  useTitle(job ? shownName(job) : texts().job.title(props.id));
  return job ? <Job store={store} job={job} /> : <Unknown store={store} id={props.id} />;
}

function Unknown(props: { store: OneJob; id: string }) {
  const t = texts().job;
  const { follower } = props.store;
  const error = follower.error.value;
  if (error instanceof ApiError && (error.status === 404 || error.status === 422)) {
    return (
      <>
        <h1 class="long-name">{t.title(props.id)}</h1>
        <div class="panel">
          <Empty title={t.notFound}>
            <p class="faint">{t.notFoundHint}</p>
            <a class="button" href={href(["jobs"])}>
              {t.toJobs}
            </a>
          </Empty>
        </div>
      </>
    );
  }
  return (
    <>
      <h1 class="long-name">{t.title(props.id)}</h1>
      {error === null ? (
        <Loading what={t.loading} />
      ) : (
        <Failure error={error} onRetry={() => follower.retry()} />
      )}
    </>
  );
}

function Job(props: { store: OneJob; job: JobView }) {
  const { store, job } = props;
  const { follower } = store;
  const isFailed = follower.mode.value === "failed" && follower.error.value !== null;
  return (
    <>
      <Head store={store} job={job} />
      <StaleBanner follower={follower} />
      {isFailed && <Failure error={follower.error.value} onRetry={() => follower.retry()} />}
      <Facts job={job} />
      {isOver(job) ? <Over store={store} job={job} /> : <Under store={store} job={job} />}
    </>
  );
}

function Head(props: { store: OneJob; job: JobView }) {
  const { store, job } = props;
  const { common } = texts();
  return (
    <div class="row page-head">
      <h1>{shownName(job)}</h1>
      <span role="status">
        <StateBadge state={job.state} />
      </span>
      <span class="faint">
        {common.kinds[job.kind as Kind] ?? job.kind}
        {job.model && ` · ${job.model}`}
      </span>
      <LiveMark follower={store.follower} />
      <div class="page-action">
        <JobActions job={job} onChange={(changed) => store.change(changed)} />
      </div>
    </div>
  );
}

/** A job that waits or runs. */
function Under(props: { store: OneJob; job: JobView }) {
  const { store, job } = props;
  return (
    <>
      {job.cancel_requested && (
        <p class="banner banner-stale" role="status">
          {texts().job.outcome.stopping}
        </p>
      )}
      {job.state === "queued" && <Queue job={job} steps={store.steps.value} />}
      {(job.state === "running" || store.steps.value.length > 1) && (
        <LiveProgress store={store} job={job} />
      )}
      <section class="panel">
        <Log log={store.log.value} isOver={false} />
      </section>
    </>
  );
}

/** A job that is over: first what came of it, then how it came about. */
function Over(props: { store: OneJob; job: JobView }) {
  const { store, job } = props;
  const t = texts().job;
  return (
    <>
      <Outcome job={job} log={store.log.value} />
      <PastProgress job={job} steps={store.steps.value} />
      <details class="panel">
        <summary>
          <h2>{t.log.title}</h2>
        </summary>
        <Log log={store.log.value} isOver />
      </details>
    </>
  );
}
