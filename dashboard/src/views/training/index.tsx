/** A training plan: all plans that were found, the best one with its schedule, sharding and experts. */

import { useMemo } from "preact/hooks";
import type { PlanSource } from "../../api/source";
import { WithContents } from "../../components/contents";
import { Empty } from "../../components/states";
import { texts } from "../../i18n";
import "../../styles/training.css";
import { Assumptions, Warnings } from "../../components/basis";
import { ProvenancePanel } from "../../components/provenance";
import { PipelinePlan } from "../pipeline";
import { ShardingResultView } from "../sharding";
import { Candidates } from "./candidates";
import { candidatesOf } from "./candidates-data";
import { TrainingCertificatePanel } from "./certificate";
import { DroppedPanel } from "./dropped";
import { ExpertsPanel } from "./experts";
import { Headline } from "./headline";
import type { Best, TrainingResult } from "./types";
import { Winner } from "./winner";

export function TrainingPlan(props: { source: PlanSource }) {
  const { source } = props;
  const result: TrainingResult = source.result;
  const t = texts().training;
  const candidates = useMemo(() => candidatesOf(result), [result]);
  const winner = candidates.find((one) => one.isBest)?.plan ?? candidates[0]?.plan;
  if (!winner) {
    return <Empty title={t.nothing} />;
  }
  // A report has no service, so there is no form that a plan could be taken to.
  const request = source.hasClassicTimelines ? (result.provenance?.request ?? null) : null;
  return (
    <div class="train-plan">
      <Warnings warnings={result.warnings ?? []} />
      <Headline result={result} plan={winner} />
      <Candidates candidates={candidates} request={request} />
      <Winner plan={winner} />
      {result.searched && (
        <DroppedPanel searched={result.searched} examples={result.dropped ?? []} />
      )}
      {result.best && <BestParts best={result.best} source={source} />}
      {result.certificate && <TrainingCertificatePanel certificate={result.certificate} />}
      <Assumptions assumptions={result.assumptions ?? []} />
      {result.provenance && <ProvenancePanel provenance={result.provenance} />}
    </div>
  );
}

/** The parts of the best plan that have views of their own, and why some are not there. */
function BestParts(props: { best: Best; source: PlanSource }) {
  const t = texts().training;
  const { best, source } = props;
  const leftOut = Object.entries(best.left_out ?? {});
  return (
    <>
      {leftOut.length > 0 && (
        <section class="panel">
          <h2>{t.leftOut}</h2>
          <ul>
            {leftOut.map(([part, why]) => (
              <li key={part}>
                <span class="faint">{t.leftOutParts[part] ?? part}: </span>
                {why}
              </li>
            ))}
          </ul>
        </section>
      )}
      {best.experts && <ExpertsPanel experts={best.experts} />}
      {best.schedule && (
        <section class="train-part">
          <h2>{t.schedule.title}</h2>
          <p class="faint">{t.schedule.gapHelp}</p>
          <WithContents isPart>
            <PipelinePlan source={source} result={best.schedule} />
          </WithContents>
        </section>
      )}
      {best.sharding && (
        <section class="train-part">
          <h2>{t.sharding.title}</h2>
          <WithContents isPart>
            <ShardingResultView result={best.sharding} />
          </WithContents>
        </section>
      )}
    </>
  );
}
