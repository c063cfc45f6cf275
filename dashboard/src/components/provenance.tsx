import type { Assumption } from "../api/types";
import { number } from "../format";
import { texts } from "../i18n";
import { RawProvenance } from "./basis";
import { Fact, known } from "./fact";

/** What the service says of how an answer was made; each kind has a part of it. */
export interface Provenance {
  planner_version?: string;
  engine?: string;
  packages?: Record<string, string>;
  solve_seconds?: number;
  total_seconds?: number;
  queue_seconds?: number;
  attempts?: number;
  model?: Record<string, number>[];
  options?: Record<string, unknown>;
  settings?: Record<string, unknown>;
  warnings?: string[];
  assumptions?: Assumption[];
}

/** How the answer came about; a figure that this kind of answer lacks is left out. */
export function ProvenancePanel(props: { provenance: Provenance }) {
  const t = texts().common;
  const { provenance } = props;
  const seconds = (value: number) => t.provenance.seconds(number(value, 2));
  return (
    <details class="panel">
      <summary>
        <h2>{t.basis.provenance}</h2>
      </summary>
      <dl class="facts">
        <Fact name={t.provenance.planner}>{provenance.planner_version}</Fact>
        <Fact name={t.provenance.engine}>{provenance.engine}</Fact>
        <Fact name={t.provenance.solve}>{known(provenance.solve_seconds, seconds)}</Fact>
        {provenance.total_seconds !== undefined && (
          <Fact name={t.provenance.total}>{seconds(provenance.total_seconds)}</Fact>
        )}
        <Fact name={t.provenance.queue}>{known(provenance.queue_seconds, seconds)}</Fact>
        <Fact name={t.provenance.attempts}>
          {known(provenance.attempts, (value) => number(value))}
        </Fact>
        {provenance.packages && (
          <Fact name={t.provenance.packages}>
            {Object.entries(provenance.packages)
              .map((entry) => entry.join(" "))
              .join(", ")}
          </Fact>
        )}
      </dl>
      {provenance.model && (
        <>
          <h3>{t.provenance.model}</h3>
          <ul>
            {provenance.model.map((model, index) => (
              <li key={String(index)}>{modelText(model)}</li>
            ))}
          </ul>
        </>
      )}
      <RawProvenance provenance={provenance} />
    </details>
  );
}

function modelText(model: Record<string, number>): string {
  const t = texts().common.provenance;
  const figure = (name: string) => model[name] ?? 0;
  return [
    t.modelSize(figure("operators"), figure("strategies")),
    "reduced_operators" in model
      ? t.reduced(figure("reduced_operators"), figure("reduced_strategies"))
      : "",
    figure("compared_plans") > 0 ? t.noEngine(figure("compared_plans")) : "",
    figure("engine_runs") > 0 ? t.engineRuns(figure("engine_runs")) : "",
  ]
    .filter(Boolean)
    .join("; ");
}
