/** A pipeline schedule with all that speaks for it. */

import { useMemo, useRef, useState } from "preact/hooks";
import type { PlanSource } from "../../api/source";
import type { ResultDocument } from "../../api/types";
import { Assumptions } from "../../components/basis";
import "../../styles/pipeline.css";
import { useLoad } from "../../use-load";
import { BetterPanel } from "./better-panel";
import { type Contender, contenders, OURS } from "./comparison";
import { ComparisonPanel } from "./comparison-panel";
import { FactsPanel } from "./facts-panel";
import { FoundPanel } from "./found-panel";
import { IdlePanel } from "./idle-panel";
import { MissingNote } from "./missing-note";
import { isSteadySpan } from "./plan-facts";
import { RobustPanel } from "./robust-panel";
import { SchedulePanel } from "./schedule-panel";
import { type PipelineResult, readResult } from "./types";

/** A pipeline schedule: `result` is the job's own, or the best schedule of a training plan. */
export function PipelinePlan(props: { source: PlanSource; result: ResultDocument }) {
  const result = useMemo(() => readResult(props.result), [props.result]);
  return <Schedule source={props.source} result={result} />;
}

function Schedule(props: { source: PlanSource; result: PipelineResult }) {
  const { source, result } = props;
  const all = useMemo(() => contenders(result), [result]);
  return (
    <>
      <MissingNote result={result} />
      <FactsPanel result={result} contenders={all} />
      <TimedParts source={source} result={result} contenders={all} />
      <RobustPanel result={result} />
      <FoundPanel provenance={result.provenance} />
      <Assumptions assumptions={result.provenance.assumptions} />
    </>
  );
}

/** What is drawn of a timeline, the plan's or that of a classic schedule. */
function TimedParts(props: {
  source: PlanSource;
  result: PipelineResult;
  contenders: readonly Contender[];
}) {
  const { source, result } = props;
  const [shown, setShown] = useState(OURS);
  const heading = useRef<HTMLHeadingElement>(null);
  const own = useLoad((signal) => source.timeline(undefined, signal), [source]);
  const show = (key: string) => {
    setShown(key);
    heading.current?.focus();
    heading.current?.scrollIntoView({ block: "start" });
  };
  return (
    <>
      <SchedulePanel
        source={source}
        own={own}
        contenders={props.contenders}
        shown={shown}
        onShow={setShown}
        headingRef={heading}
      />
      <ComparisonPanel
        contenders={props.contenders}
        isSteadySpan={isSteadySpan(result)}
        shown={shown}
        onShow={source.hasClassicTimelines ? show : null}
      />
      <BetterPanel result={result} />
      <IdlePanel timeline={own} />
    </>
  );
}
