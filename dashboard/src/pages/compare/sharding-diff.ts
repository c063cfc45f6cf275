/** Which operators two sharding plans split differently, and what that costs. */

import type { ResultDocument } from "../../api/types";

export interface OperatorPlan {
  name: string;
  kind?: string;
  strategy: string;
  redundant_bytes?: number;
  communication_bytes?: number;
  memory_bytes?: number;
}

export interface StagePlan {
  objective?: number;
  memory_bytes?: number;
  redundant_bytes?: number;
  communication_bytes?: number;
  resharding_bytes?: number;
  predicted_peak_bytes?: number | null;
  predicted_step_ns?: number | null;
  operators?: OperatorPlan[];
}

export interface OperatorPair {
  key: string;
  stage: number;
  name: string;
  a: OperatorPlan | null;
  b: OperatorPlan | null;
}

export interface ShardingDifference {
  /** Operators of both plans whose strategies differ, those with the most bytes between them first. */
  changed: OperatorPair[];
  alike: number;
  onlyInA: OperatorPair[];
  onlyInB: OperatorPair[];
}

/** The plan of each stage; most results have one. */
export function stagePlans(result: ResultDocument): StagePlan[] {
  const stages = (result.stages as { plan?: StagePlan }[] | undefined) ?? [result];
  return stages.flatMap((stage) => (stage.plan ? [stage.plan] : []));
}

export function shardingDifference(a: ResultDocument, b: ResultDocument): ShardingDifference {
  const pairs = pairsOf(stagePlans(a), stagePlans(b));
  const both = pairs.filter((pair) => pair.a && pair.b);
  const changed = both.filter((pair) => pair.a?.strategy !== pair.b?.strategy);
  return {
    changed: changed.sort((x, y) => bytesBetween(y) - bytesBetween(x)),
    alike: both.length - changed.length,
    onlyInA: pairs.filter((pair) => !pair.b),
    onlyInB: pairs.filter((pair) => !pair.a),
  };
}

/** A figure of all stages together; null where a stage does not have it. */
export function sumOf(plans: readonly StagePlan[], field: keyof StagePlan): number | null {
  const values = plans.map((plan) => plan[field]);
  return values.length > 0 && values.every((value) => typeof value === "number")
    ? values.reduce<number>((sum, value) => sum + (value as number), 0)
    : null;
}

function pairsOf(a: readonly StagePlan[], b: readonly StagePlan[]): OperatorPair[] {
  const pairs = new Map<string, OperatorPair>();
  const put = (plans: readonly StagePlan[], side: "a" | "b") => {
    for (const [stage, plan] of plans.entries()) {
      for (const operator of plan.operators ?? []) {
        const key = `${stage} ${operator.name}`;
        const pair = pairs.get(key) ?? { key, stage, name: operator.name, a: null, b: null };
        pairs.set(key, { ...pair, [side]: operator });
      }
    }
  };
  put(a, "a");
  put(b, "b");
  return [...pairs.values()];
}

function bytesBetween(pair: OperatorPair): number {
  const fields = ["redundant_bytes", "communication_bytes", "memory_bytes"] as const;
  return fields.reduce(
    (sum, field) => sum + Math.abs((pair.b?.[field] ?? 0) - (pair.a?.[field] ?? 0)),
    0,
  );
}
