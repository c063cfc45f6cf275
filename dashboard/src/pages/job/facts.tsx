import type { ComponentChildren } from "preact";
import type { JobView } from "../../api/types";
import { CopyButton } from "../../components/copy-button";
import { DateTime } from "../../components/date-time";
import { duration } from "../../format";
import { texts } from "../../i18n";
import { Tags } from "../jobs/columns";

export function Facts(props: { job: JobView }) {
  const t = texts().job.facts;
  const { answers, losses } = texts().job;
  const { job } = props;
  const lost = losses(job.crashes, job.losses);
  const isOfAnotherSolve = job.cache === "hit";
  return (
    <section class="panel" aria-label={t.label}>
      <dl class="facts job-facts">
        <Fact name={t.id}>
          <code class="job-id">{job.id}</code> <CopyButton text={() => job.id} label={t.id} />
        </Fact>
        <Fact name={t.engine}>{job.engine}</Fact>
        <Fact name={t.priority}>{job.priority}</Fact>
        {(job.finished_at || job.cache !== "miss") && (
          <Fact name={t.answer}>
            {job.cache in answers ? answers[job.cache as keyof typeof answers] : job.cache}
          </Fact>
        )}
        <Fact name={t.created}>
          <DateTime at={job.created_at} />
        </Fact>
        {job.started_at && (
          <Fact name={isOfAnotherSolve ? t.solveStarted : t.started}>
            <DateTime at={job.started_at} />
          </Fact>
        )}
        {job.finished_at && (
          <Fact name={isOfAnotherSolve ? t.solveFinished : t.finished}>
            <DateTime at={job.finished_at} />
          </Fact>
        )}
        {job.finished_at && <Fact name={t.spent}>{duration(job.spent_s * 1e9)}</Fact>}
        {job.attempts > 1 && (
          <Fact name={t.attempts}>
            {job.attempts}
            {lost !== "" && <span class="faint"> ({lost})</span>}
          </Fact>
        )}
        {job.tags.length > 0 && (
          <Fact name={t.tags}>
            <Tags tags={job.tags} />
          </Fact>
        )}
      </dl>
    </section>
  );
}

export function Fact(props: { name: string; children: ComponentChildren }) {
  return (
    <div>
      <dt>{props.name}</dt>
      <dd>{props.children}</dd>
    </div>
  );
}
