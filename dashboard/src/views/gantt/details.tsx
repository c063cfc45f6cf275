/** The selected operation in full; a screen reader is told of each that is selected. */

import { texts } from "../../i18n";
import type { GanttState } from "./state";
import { factsOf, shortName, spoken } from "./words";

const MOST_SUCCESSORS = 12;

export function Details({ state, title }: { state: GanttState; title: string }) {
  const t = texts().gantt;
  const op = state.selected.value;
  return (
    <section class="gantt-details" aria-label={`${t.selected}: ${title}`}>
      <p class="visually-hidden" aria-live="polite">
        {op === null ? "" : spoken(state.model, op)}
      </p>
      {op === null ? <p class="faint">{t.nothingSelected}</p> : <Selected state={state} op={op} />}
    </section>
  );
}

function Selected({ state, op }: { state: GanttState; op: number }) {
  const t = texts().gantt;
  const { model } = state;
  const facts = factsOf(model, op);
  const isLit = state.microBatch.value === model.timeline.ops.micro_batch[op];
  return (
    <>
      <div class="row">
        <h3>{facts.title}</h3>
        <button
          type="button"
          class="quiet"
          aria-pressed={isLit}
          onClick={() => state.toggleMicroBatch(op)}
        >
          {t.lightUp}
        </button>
      </div>
      <dl class="facts">
        <Fact name={t.deviceTitle} value={facts.device} />
        {facts.link !== null && <Fact name={t.hostLink} value={facts.link} />}
        <Fact name={t.start} value={facts.start} />
        <Fact name={t.end} value={facts.end} />
        <Fact name={t.duration} value={facts.duration} />
        <div>
          <dt>{t.waited}</dt>
          <dd>
            {facts.why} {facts.after !== null && <OperationButton state={state} op={facts.after} />}
          </dd>
        </div>
        <div>
          <dt>{t.successors}</dt>
          <dd>
            {facts.successors.length === 0 && texts().common.none}
            {facts.successors.slice(0, MOST_SUCCESSORS).map((next) => (
              <OperationButton key={next} state={state} op={next} />
            ))}
            {facts.successors.length > MOST_SUCCESSORS &&
              t.more(facts.successors.length - MOST_SUCCESSORS)}
          </dd>
        </div>
      </dl>
    </>
  );
}

function Fact({ name, value }: { name: string; value: string }) {
  return (
    <div>
      <dt>{name}</dt>
      <dd>{value}</dd>
    </div>
  );
}

function OperationButton({ state, op }: { state: GanttState; op: number }) {
  return (
    <button type="button" class="quiet" onClick={() => state.goTo(op)}>
      {shortName(state.model, op)}
    </button>
  );
}
