/** The figures of a sharding plan, put together from the problem that was solved and the choice. */

import { type Split, splitOf } from "./split";
import type { Explanation, Instance, ShardingDocument, ShardingResult } from "./types";

/** A part of a result that can be shown: there is a problem and a choice for each operator. */
export type Planned = ShardingDocument & Required<Pick<ShardingDocument, "instance" | "plan">>;

export interface OperatorRow {
  index: number;
  name: string;
  kind: string | null;
  layers: number;
  strategy: string;
  split: Split | null;
  redundantBytes: number;
  communicationBytes: number;
  memoryBytes: number;
  /** What the operator's inputs cost on their way from other layouts. */
  reshardingBytes: number;
}

export interface EdgeRow {
  index: number;
  from: number;
  to: number;
  bytes: number;
  tensors: readonly string[];
  /** Whether it leads back to an earlier operator: that of the next layer. */
  isToNextLayer: boolean;
}

export interface StrategyRow {
  index: number;
  name: string;
  isChosen: boolean;
  redundantBytes: number;
  communicationBytes: number;
  memoryBytes: number;
  /** Resharding from and to the neighbours as the plan splits them. */
  reshardingBytes: number;
  /** By how much the objective grows if the plan has this strategy here and is else the same. */
  objectiveDifference: number;
  explanation: Explanation | null;
}

/** What is planned, stage by stage; a plan without stages is one part. */
export function partsOf(result: ShardingResult): Planned[] {
  return (result.stages ?? [result]).filter(isPlanned);
}

export function operatorRows(part: Planned): OperatorRow[] {
  const { instance, plan } = part;
  const resharding = new Map<number, number>();
  for (const edge of instance.edges) {
    const size = reshardingOf(instance, plan.choice, edge);
    resharding.set(edge.to, (resharding.get(edge.to) ?? 0) + size);
  }
  return instance.operators.map((operator, index) => {
    const cost = operator.strategies[plan.choice[index] ?? 0];
    const planned = plan.operators?.[index];
    const strategy = planned?.strategy ?? cost?.name ?? "";
    return {
      index,
      name: operator.name,
      kind: planned?.kind ?? null,
      layers: planned?.layers ?? 1,
      strategy,
      split: splitOf(strategy),
      redundantBytes: cost?.redundant_bytes ?? 0,
      communicationBytes: cost?.communication_bytes ?? 0,
      memoryBytes: cost?.memory_bytes ?? 0,
      reshardingBytes: resharding.get(index) ?? 0,
    };
  });
}

export function edgeRows(part: Planned): EdgeRow[] {
  const { instance, plan } = part;
  return instance.edges.map((edge, index) => {
    const from = instance.operators[edge.from]?.name;
    const to = instance.operators[edge.to]?.name;
    const moved = (plan.resharding ?? []).filter((one) => one.from === from && one.to === to);
    return {
      index,
      from: edge.from,
      to: edge.to,
      bytes: reshardingOf(instance, plan.choice, edge),
      tensors: moved.map((one) => one.tensor),
      isToNextLayer: edge.from > edge.to,
    };
  });
}

/** All strategies of an operator, with what each would cost where the plan is else the same. */
export function strategyRows(part: Planned, operator: number): StrategyRow[] {
  const { instance, plan } = part;
  const own = instance.operators[operator];
  if (!own) {
    return [];
  }
  const chosen = plan.choice[operator] ?? 0;
  const edges = instance.edges.filter((edge) => edge.from === operator || edge.to === operator);
  const figures = own.strategies.map((cost, index) => {
    const choice = (other: number) => (other === operator ? index : (plan.choice[other] ?? 0));
    const reshardingBytes = edges.reduce(
      (sum, edge) => sum + (edge.resharding_bytes[choice(edge.from)]?.[choice(edge.to)] ?? 0),
      0,
    );
    const sent = cost.communication_bytes + reshardingBytes;
    return { cost, reshardingBytes, objective: cost.redundant_bytes + instance.alpha * sent };
  });
  const reference = figures[chosen]?.objective ?? 0;
  return figures.map(({ cost, reshardingBytes, objective }, index) => ({
    index,
    name: cost.name,
    isChosen: index === chosen,
    redundantBytes: cost.redundant_bytes,
    communicationBytes: cost.communication_bytes,
    memoryBytes: cost.memory_bytes,
    reshardingBytes,
    objectiveDifference: objective - reference,
    explanation:
      part.explanations?.find((one) => one.operator === own.name && one.strategy === cost.name) ??
      null,
  }));
}

/** The names of a choice's strategies, one for each operator. */
export function strategiesOf(instance: Instance, choice: readonly number[]): string[] {
  return instance.operators.map(
    (operator, index) => operator.strategies[choice[index] ?? 0]?.name ?? "",
  );
}

function reshardingOf(
  instance: Instance,
  choice: readonly number[],
  edge: Instance["edges"][number],
): number {
  const from = choice[edge.from] ?? 0;
  return instance.operators[edge.to]
    ? (edge.resharding_bytes[from]?.[choice[edge.to] ?? 0] ?? 0)
    : 0;
}

function isPlanned(part: ShardingDocument): part is Planned {
  return part.instance !== undefined && Array.isArray(part.plan?.choice);
}
