/** A plan's step time and memory as stacked bars. */

import { useMemo } from "preact/hooks";
import { BarChart } from "../../charts/bar-chart";
import { texts } from "../../i18n";
import { chartColours, isDark } from "../../palette";
import { memoryPart, STEP_PARTS, stepPart, usedMemoryParts } from "./parts";
import type { RankMemory, StepTime } from "./types";

export function StepBars(props: { title: string; step: StepTime }) {
  const t = texts().training.step;
  const { step } = props;
  const bars = useMemo(
    () => ({
      categories: [texts().training.candidates.step],
      series: STEP_PARTS.filter((part) => stepPart(step, part) > 0).map((part) => ({
        name: t.parts[part],
        values: [stepPart(step, part)],
      })),
      measure: "time" as const,
    }),
    [step, t],
  );
  return <BarChart title={props.title} label={t.chart} bars={bars} />;
}

export function MemoryBars(props: { title: string; ranks: readonly RankMemory[]; limit: number }) {
  const t = texts().training.memory;
  const { ranks, limit } = props;
  const colours = chartColours(isDark.value);
  const bars = useMemo(() => {
    // There are more parts than colours: those at the end are hatched.
    const palette = colours.series;
    return {
      categories: ranks.map((rank) => t.device(rank.rank)),
      series: usedMemoryParts(ranks).map((part, index) => ({
        name: t.parts[part],
        values: ranks.map((rank) => memoryPart(rank, part)),
        colour: palette[index % palette.length] ?? colours.text,
        isHatched: index >= palette.length,
      })),
      measure: "bytes" as const,
      limit: { value: limit, name: t.limit },
    };
  }, [ranks, limit, t, colours]);
  return <BarChart title={props.title} label={t.chart} bars={bars} />;
}
