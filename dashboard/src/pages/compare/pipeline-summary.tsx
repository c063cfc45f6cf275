import type { Timeline } from "../../api/types";
import { percent, writerOf } from "../../format";
import { texts } from "../../i18n";
import { gapOf } from "../../views/pipeline/bounds";
import { largestPeak, objectiveNs, offloadCount } from "../../views/pipeline/plan-facts";
import type { PipelineResult } from "../../views/pipeline/types";
import { deviceGains, type LargestChange, largestChange, meanChanges } from "./gains";
import { type PlanMoves, totals } from "./moves";
import type { Comparability } from "./problems";

const MOST_PARTS = 3;

interface Props {
  a: PipelineResult;
  b: PipelineResult;
  scope: Comparability;
  moves: PlanMoves | null;
  timelines: { a: Timeline; b: Timeline } | null;
}

/** The difference of two schedules in words, and what of them can be compared at all. */
export function PipelineSummary(props: Props) {
  const t = texts().compare;
  return (
    <section class="panel">
      <h2>{t.summary}</h2>
      <Scope scope={props.scope} />
      <ul class="summary-lines">
        {sentences(props).map((sentence) => (
          <li key={sentence}>{sentence}</li>
        ))}
      </ul>
    </section>
  );
}

function Scope(props: { scope: Comparability }) {
  const t = texts().compare.scope;
  const { scope } = props;
  if (scope.differences.length === 0) {
    return <p class="faint">{t.all}</p>;
  }
  return (
    <div class="banner banner-warning">
      {t.differ}
      <ul>
        {scope.differences.map((difference) => (
          <li key={difference}>{t[difference]}</li>
        ))}
      </ul>
      <p>
        {scope.operations ? t.operations : t.noOperations}{" "}
        {!scope.devices ? t.noDevices : !scope.sameWork && t.sharesOnly}
      </p>
    </div>
  );
}

function sentences(props: Props): string[] {
  const { a, b, scope, moves, timelines } = props;
  return [
    ...lengthSentence(a, b),
    ...(timelines && scope.devices && scope.sameWork ? useSentences(timelines) : []),
    ...memorySentences(a, b, moves),
    ...(moves ? orderSentences(moves) : []),
    ...gapSentence(a, b),
  ];
}

function lengthSentence(a: PipelineResult, b: PipelineResult): string[] {
  const t = texts().compare.words;
  const [left, right] = [objectiveNs(a), objectiveNs(b)];
  if (left === null || right === null) {
    return [];
  }
  if (left === right) {
    return [t.equal];
  }
  const by = writerOf("time", [left, right])(Math.abs(right - left));
  const share = percent(Math.abs(right - left) / left, 2);
  return [right < left ? t.shorter(by, share) : t.longer(by, share)];
}

function useSentences(timelines: { a: Timeline; b: Timeline }): string[] {
  const t = texts().compare.words;
  const gains = deviceGains(timelines.a, timelines.b);
  const write = writerOf("time", [timelines.a.makespan_ns, timelines.b.makespan_ns]);
  const changes = meanChanges(gains).slice(0, MOST_PARTS);
  const parts = changes.map(({ use, byNs }) => {
    const size = write(Math.abs(byNs));
    return byNs < 0 ? t.less(size, t.useNames[use]) : t.more(size, t.useNames[use]);
  });
  const change = largestChange(gains, timelines.b.makespan_ns - timelines.a.makespan_ns);
  return [
    ...(parts.length > 0 ? [t.madeOf(parts.join(", "))] : []),
    ...(change ? [changeSentence(change, write)] : []),
  ];
}

function changeSentence(change: LargestChange, write: (ns: number) => string): string {
  const t = texts().compare.words;
  const size = write(Math.abs(change.byNs));
  const what = t.useNames[change.reason];
  const words = change.byNs < 0 ? t.less(size, what) : t.more(size, what);
  return t.largestChange(change.device, words);
}

function memorySentences(a: PipelineResult, b: PipelineResult, moves: PlanMoves | null): string[] {
  const t = texts().compare.words;
  const [left, right] = [largestPeak(a), largestPeak(b)];
  const lines: string[] = [];
  if (left !== null && right !== null) {
    const by = writerOf("bytes", [left, right])(Math.abs(right - left));
    lines.push(left === right ? t.peakEqual : right < left ? t.peakLess(by) : t.peakMore(by));
  }
  if (moves && moves.offloadsAdded.length + moves.offloadsRemoved.length > 0) {
    lines.push(t.offloads(moves.offloadsAdded.length, moves.offloadsRemoved.length));
  } else if (!moves && a.schedule && b.schedule) {
    lines.push(t.offloadCount(offloadCount(a.schedule) ?? 0, offloadCount(b.schedule) ?? 0));
  }
  return lines;
}

function orderSentences(moves: PlanMoves): string[] {
  const t = texts().compare.words;
  const all = totals(moves);
  return [t.moved(all.earlier, all.later, all.operations), t.order(all.swaps)];
}

function gapSentence(a: PipelineResult, b: PipelineResult): string[] {
  const [left, right] = [gapOf(a), gapOf(b)];
  return left === null || right === null
    ? []
    : [texts().compare.words.gapBoth(percent(left), percent(right))];
}
