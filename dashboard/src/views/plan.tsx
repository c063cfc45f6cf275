/** The plan of a job that is over, of whichever kind: on the job's page and in a report. */

import type { PlanSource } from "../api/source";
import { Downloads } from "./downloads";
import { PipelinePlan } from "./pipeline";
import { ShardingPlan } from "./sharding";
import { TrainingPlan } from "./training";

export function Plan(props: { source: PlanSource }) {
  return (
    <>
      <PlanOfKind source={props.source} />
      <Downloads source={props.source} />
    </>
  );
}

function PlanOfKind(props: { source: PlanSource }) {
  switch (props.source.job.kind) {
    case "sharding":
      return <ShardingPlan source={props.source} />;
    case "training":
      return <TrainingPlan source={props.source} />;
    default:
      return <PipelinePlan source={props.source} result={props.source.result} />;
  }
}
