import { Fact, known } from "../../components/fact";
import { number, percent, writerOf } from "../../format";
import { texts } from "../../i18n";
import { configurationText } from "./candidates-data";
import type { TrainedPlan, TrainingCertificate, TrainingResult } from "./types";

/** The best plan in a few figures. */
export function Headline(props: { result: TrainingResult; plan: TrainedPlan }) {
  const t = texts().training.facts;
  const { plan, result } = props;
  const { best, certificate, searched } = result;
  const time = writerOf("time", [plan.step_time_ns]);
  const memory = writerOf("bytes", [plan.limit_bytes, plan.peak_bytes]);
  const isSolved = best?.schedule !== null && best?.schedule !== undefined;
  return (
    <section class="panel">
      <h2>{`${t.best}: ${configurationText(plan)}`}</h2>
      <dl class="facts">
        <Fact name={t.step}>
          {time(best?.step_time_ns ?? plan.step_time_ns)}
          {best && best.step_time_ns !== plan.step_time_ns && (
            <span class="fact-note">{isSolved ? t.ofSchedule : t.carriedOut}</span>
          )}
        </Fact>
        <Fact name={t.predicted}>
          {time(plan.step_time_ns)}
          <span class="fact-note">{t.rank(plan.rank)}</span>
        </Fact>
        <Fact name={t.tokens}>{number(plan.tokens_per_s)}</Fact>
        <Fact name={t.samples}>{number(plan.samples_per_s, 1)}</Fact>
        <Fact name={t.mfu}>{known(plan.mfu, (mfu) => percent(mfu, 1))}</Fact>
        <Fact name={t.devices}>{number(plan.devices)}</Fact>
        <Fact name={t.peak}>
          {memory(plan.peak_bytes)}
          <span class="fact-note">
            {texts().sharding.facts.ofLimit(percent(plan.peak_bytes / plan.limit_bytes, 1))}
          </span>
        </Fact>
        <Fact name={t.headroom}>{memory(plan.headroom_bytes)}</Fact>
        {certificate && <Gap certificate={certificate} write={time} />}
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

/** How much faster any configuration could be, at most; the schedule has a gap of its own. */
function Gap(props: { certificate: TrainingCertificate; write: (ns: number) => string }) {
  const t = texts().training.facts;
  const { gap, lower_bound_ns: bound } = props.certificate;
  return (
    <>
      <Fact name={t.bound}>{known(bound, props.write)}</Fact>
      {gap !== null && (
        <Fact name={t.gap}>
          {percent(gap)}
          <span class="fact-note">{t.gapHelp}</span>
        </Fact>
      )}
    </>
  );
}
