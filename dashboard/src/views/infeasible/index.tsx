/** A job for which there is no plan: who is short of how much, and the ways out. */

import { fetchRequest, type PlanSource } from "../../api/source";
import type { Kind } from "../../api/types";
import { Assumptions } from "../../components/basis";
import { useLoad } from "../../use-load";
import { Infeasible } from "./panel";

export function InfeasiblePlan(props: { source: PlanSource }) {
  const { job, result, isReport } = props.source;
  // Without the request, as in a report, there is nothing to ask again with.
  const request = useLoad(
    async (signal) => (isReport ? null : fetchRequest(job.id, signal)),
    [job.id, isReport],
  );
  return (
    <>
      <Infeasible document={result.infeasibility} kind={job.kind as Kind} request={request.value} />
      {result.provenance?.assumptions && (
        <Assumptions assumptions={result.provenance.assumptions} />
      )}
    </>
  );
}
