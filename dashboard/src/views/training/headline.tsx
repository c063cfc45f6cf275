import { bytes, duration, number, percent } from "../../format";
import { texts } from "../../i18n";
import { Fact, known } from "../sharding/facts";
import { configurationText } from "./candidates-data";
import type { TrainedPlan, TrainingResult } from "./types";

/** The best plan in a few figures. */
export function Headline(props: { result: TrainingResult; plan: TrainedPlan }) {
  const t = texts().training.facts;
  const { plan, result } = props;
  const { best, certificate, searched } = result;
  const isSolved = best?.schedule !== null && best?.schedule !== undefined;
  return (
    <section class="panel">
      <h2>{`${t.best}: ${configurationText(plan)}`}</h2>
      <dl class="facts">
        <Fact name={t.step}>
          {duration(best?.step_time_ns ?? plan.step_time_ns)}
          {best && best.step_time_ns !== plan.step_time_ns && (
            <span class="fact-note">{isSolved ? t.ofSchedule : t.carriedOut}</span>
          )}
        </Fact>
        <Fact name={t.predicted}>
          {duration(plan.step_time_ns)}
          <span class="fact-note">{t.rank(plan.rank)}</span>
        </Fact>
        <Fact name={t.tokens}>{number(plan.tokens_per_s)}</Fact>
        <Fact name={t.samples}>{number(plan.samples_per_s, 1)}</Fact>
        <Fact name={t.mfu}>{known(plan.mfu, (mfu) => percent(mfu, 1))}</Fact>
        <Fact name={t.devices}>{number(plan.devices)}</Fact>
        <Fact name={t.peak}>
          {bytes(plan.peak_bytes)}
          <span class="fact-note">
            {texts().sharding.facts.ofLimit(percent(plan.peak_bytes / plan.limit_bytes, 1))}
          </span>
        </Fact>
        <Fact name={t.headroom}>{bytes(plan.headroom_bytes)}</Fact>
        <Fact name={t.bound}>{known(certificate?.lower_bound_ns, duration)}</Fact>
        <Fact name={t.gap}>{known(certificate?.gap, (gap) => percent(gap))}</Fact>
        <Fact name={t.searched}>
          {searched ? (
            <>
              {number(searched.enumerated)}
              <span class="fact-note">{t.fitting(number(searched.fits))}</span>
              {!searched.complete && <span class="fact-note">{t.incomplete}</span>}
            </>
          ) : null}
        </Fact>
      </dl>
    </section>
  );
}
