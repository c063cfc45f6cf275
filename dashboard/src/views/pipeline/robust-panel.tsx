import { percent } from "../../format";
import { texts } from "../../i18n";
import { objectiveNs, timeWriter } from "./plan-facts";
import type { PipelineResult, Robustness } from "./types";

/** How the plan does when durations vary, and whether memory suffices then. */
export function RobustPanel(props: { result: PipelineResult }) {
  const t = texts().pipeline.robust;
  const { result } = props;
  const waits = result.schedule?.waits;
  return (
    <section class="panel">
      <h2>{t.title}</h2>
      {result.robustness ? (
        <Jitter
          robustness={result.robustness}
          planNs={objectiveNs(result)}
          write={timeWriter(result)}
        />
      ) : (
        <p>{t.absent}</p>
      )}
      <dl class="facts facts-wide">
        <div>
          <dt>{t.memory}</dt>
          <dd>{memoryText(result)}</dd>
          {result.certificate.memory_safety && (
            <dd class="faint small plain" lang="en">
              {result.certificate.memory_safety}
            </dd>
          )}
        </div>
        {waits && (
          <div>
            <dt>{t.waits}</dt>
            <dd>{t.waitsCount(waits.length)}</dd>
          </div>
        )}
      </dl>
    </section>
  );
}

function Jitter(props: {
  robustness: Robustness;
  planNs: number | null;
  write: (ns: number) => string;
}) {
  const t = texts().pipeline.robust;
  const { robustness, planNs, write } = props;
  const figure = (ns: number) =>
    planNs ? `${write(ns)} ${t.longerBy(signedPercent(ns / planNs - 1))}` : write(ns);
  return (
    <>
      <p class="faint">{t.intro(percent(robustness.jitter, 0), robustness.samples)}</p>
      <dl class="facts">
        {planNs !== null && (
          <div>
            <dt>{t.plan}</dt>
            <dd>{write(planNs)}</dd>
          </div>
        )}
        <div>
          <dt>{t.p50}</dt>
          <dd>{figure(robustness.p50_ns)}</dd>
        </div>
        <div>
          <dt>{t.p95}</dt>
          <dd>{figure(robustness.p95_ns)}</dd>
        </div>
        <div>
          <dt>{t.max}</dt>
          <dd>{figure(robustness.max_ns)}</dd>
        </div>
      </dl>
    </>
  );
}

function memoryText(result: PipelineResult): string {
  const t = texts().pipeline.robust;
  const safe =
    result.certificate.memory_safe_under_jitter ??
    result.robustness?.memory_safe_for_any_durations ??
    null;
  return safe === null ? t.notKnown : safe ? `✓ ${t.safe}` : `✕ ${t.unsafe}`;
}

function signedPercent(share: number): string {
  return `${share < 0 ? "" : "+"}${percent(share, 1)}`;
}
