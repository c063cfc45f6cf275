/** What came of a job that is over: a plan, why there is none, or a fault. */

import { ApiError, serviceAddress } from "../../api/client";
import { planSource } from "../../api/source";
import type { JobView } from "../../api/types";
import { CopyButton } from "../../components/copy-button";
import { ErrorBoundary } from "../../components/error-boundary";
import { Empty, Failure, Loading } from "../../components/states";
import { texts } from "../../i18n";
import type { LogTail } from "../../live/log-tail";
import { useLoad } from "../../use-load";
import { Plan } from "../../views/plan";
import { serverOption } from "../new/commands";
import { Failed } from "./failed";

export function Outcome(props: { job: JobView; log: LogTail }) {
  const { job } = props;
  const t = texts().job.outcome;
  const source = useLoad((signal) => planSource(job.id, signal), [job.id, job.state]);
  const { error, value } = source;
  if (value !== null) {
    return (
      <>
        {job.state === "cancelled" && (
          <p class="banner banner-stale" role="status">
            {t.cancelledWithPlan}
          </p>
        )}
        <ErrorBoundary>
          <Plan source={value} />
        </ErrorBoundary>
        <ReportHint id={job.id} />
      </>
    );
  }
  if (source.isLoading) {
    return <Loading what={t.loading} />;
  }
  if (error instanceof ApiError && error.status === 410) {
    return <Failed error={error} log={props.log} />;
  }
  if (job.state === "cancelled" && error instanceof ApiError && error.code === "no_plan") {
    return (
      <div class="panel">
        <Empty title={t.cancelledWithout}>
          <p class="faint">{t.cancelledHint}</p>
        </Empty>
      </div>
    );
  }
  return <Failure error={error} onRetry={source.reload} />;
}

/** Reports are written by the command, from the service that this page is from. */
function ReportHint(props: { id: string }) {
  const t = texts().job.report;
  const words = [`loadmaster report ${props.id} -o report.html`, ...serverOption(serviceAddress())];
  const command = words.join(" ");
  return (
    <section class="panel">
      <h2>{t.title}</h2>
      <p class="faint">{t.hint}</p>
      <div class="row">
        <code class="long-name">{command}</code>
        <CopyButton text={() => command} label={t.title} />
      </div>
    </section>
  );
}
