import { known } from "../../components/fact";
import { percent, writerOf } from "../../format";
import { texts } from "../../i18n";
import { serviceName } from "../../i18n/service-text";
import { runsText } from "../../number-runs";
import type { Candidate } from "./candidates-data";
import { MemoryBars, StepBars } from "./plan-bars";
import { PostIt } from "./post-it";
import type { FinalistSchedule, TrainedPlan } from "./types";

/** One plan: why it is where it is, what its step and its memory are made of. */
export function CandidateDetail(props: {
  candidate: Candidate;
  request: Record<string, unknown> | null;
}) {
  const t = texts().training.detail;
  const { plan, figures } = props.candidate;
  return (
    <div class="train-detail">
      {plan ? <PlanDetail plan={plan} /> : <p class="faint">{t.noReasons}</p>}
      <PostIt training={figures.training} request={props.request} />
    </div>
  );
}

function PlanDetail(props: { plan: TrainedPlan }) {
  const t = texts().training.detail;
  const { plan } = props;
  const notes = notesOf(plan);
  return (
    <>
      <h3>{t.reasons}</h3>
      <ul>
        {(plan.reasons ?? []).map((reason) => (
          <li key={reason}>{reason}</li>
        ))}
      </ul>
      {notes.length > 0 && (
        <ul class="faint">
          {notes.map((note) => (
            <li key={note}>{note}</li>
          ))}
        </ul>
      )}
      <div class="grid">
        {plan.step_time && <StepBars title={t.step} step={plan.step_time} />}
        {plan.memory_per_rank && (
          <MemoryBars title={t.memory} ranks={plan.memory_per_rank} limit={plan.limit_bytes} />
        )}
      </div>
    </>
  );
}

function notesOf(plan: TrainedPlan): string[] {
  const t = texts().training.detail;
  const notes = [t.microBatches(plan.micro_batches)];
  if (plan.layers_per_stage) {
    notes.push(`${t.layersPerStage}: ${runsText(plan.layers_per_stage)}`);
  }
  if (plan.offloading) {
    const share = Math.max(0, ...plan.offloading.share_by_rank);
    notes.push(t.offloading(percent(share, 1), percent(plan.offloading.busiest_link, 1)));
  }
  if (plan.verified) {
    notes.push(t.verified(plan.verified.schedule, percent(plan.verified.deviation)));
  }
  if (plan.schedule) {
    notes.push(scheduleNote(plan.schedule));
  }
  return notes;
}

function scheduleNote(schedule: FinalistSchedule): string {
  const t = texts().training.detail;
  if (schedule.makespan_ns === null) {
    return schedule.why_not ?? t.noSchedule;
  }
  const gap = known(schedule.gap, (value) => percent(value)) ?? texts().common.unknown;
  return t.schedule(
    writerOf("time", [schedule.makespan_ns])(schedule.makespan_ns),
    gap,
    schedule.found_by ? serviceName("foundBy", schedule.found_by) : "–",
  );
}
