/** A sharding plan: which operator is split how, what that costs, and what else there would be. */

import { useMemo, useState } from "preact/hooks";
import type { PlanSource } from "../../api/source";
import type { ResultDocument } from "../../api/types";
import { Empty } from "../../components/states";
import { texts } from "../../i18n";
import "../../styles/sharding.css";
import { Assumptions, Warnings } from "../../components/basis";
import { ProvenancePanel } from "../../components/provenance";
import { CertificatePanel } from "./certificate";
import { type Planned, partsOf } from "./model";
import { PlanPart } from "./part";
import type { ShardingResult } from "./types";

export function ShardingPlan(props: { source: PlanSource }) {
  return <ShardingResultView result={props.source.result} />;
}

/** The result of a sharding plan, wherever it is from. */
export function ShardingResultView(props: { result: ResultDocument }) {
  const result: ShardingResult = props.result;
  const t = texts().sharding;
  const parts = useMemo(() => partsOf(result), [result]);
  const provenance = result.provenance;
  if (parts.length === 0) {
    return <Empty title={t.nothing} />;
  }
  return (
    <div class="shard-plan">
      <Warnings warnings={provenance?.warnings ?? []} />
      {result.stages && result.certificate && (
        <>
          <h2>{t.allStages}</h2>
          <CertificatePanel certificate={result.certificate} />
        </>
      )}
      <Parts parts={parts} />
      <Assumptions assumptions={provenance?.assumptions ?? []} />
      {provenance && <ProvenancePanel provenance={provenance} />}
    </div>
  );
}

/** One part at a time, with a choice of stages where there are several. */
function Parts(props: { parts: readonly Planned[] }) {
  const t = texts().sharding;
  const [chosen, setChosen] = useState(0);
  const part = props.parts[chosen] ?? props.parts[0];
  if (!part) {
    return null;
  }
  return (
    <>
      {props.parts.length > 1 && (
        <fieldset class="row shard-stages">
          <legend>{t.stages}</legend>
          {props.parts.map((one, index) => (
            <label key={String(index)}>
              <input
                type="radio"
                name="shard-stage"
                checked={index === chosen}
                onChange={() => setChosen(index)}
              />{" "}
              {one.layers !== undefined && one.devices !== undefined
                ? t.stageOf(index, one.layers, one.devices)
                : t.stage(index)}
            </label>
          ))}
        </fieldset>
      )}
      <PlanPart key={chosen} part={part} />
    </>
  );
}
