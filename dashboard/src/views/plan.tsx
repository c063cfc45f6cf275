/** The plan of a job that is over, of whichever kind: on the job's page and in a report. */

import type { PlanSource } from "../api/source";
import { WithContents } from "../components/contents";
import { Downloads } from "./downloads";
import { InfeasiblePlan } from "./infeasible";
import { PipelinePlan } from "./pipeline";
import { ShardingPlan } from "./sharding";
import { TrainingPlan } from "./training";

export function Plan(props: { source: PlanSource }) {
  return (
    <WithContents>
      <PlanOfKind source={props.source} />
      <Downloads source={props.source} />
    </WithContents>
  );
}

function PlanOfKind(props: { source: PlanSource }) {
  if (props.source.result.infeasibility) {
    return <InfeasiblePlan source={props.source} />;
  }
  switch (props.source.job.kind) {
    case "sharding":
      return <ShardingPlan source={props.source} />;
    case "training":
      return <TrainingPlan source={props.source} />;
    default:
      return <PipelinePlan source={props.source} result={props.source.result} />;
  }
}
