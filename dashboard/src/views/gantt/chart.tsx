/** The chart itself: draws a frame for each change, and answers mouse and keys. */

import { effect } from "@preact/signals";
import type { EChartsType } from "echarts/core";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { Chart } from "../../charts/chart";
import { ganttOption } from "../../charts/gantt/option";
import type { Scene } from "../../charts/gantt/scene";
import { isSame, type TimeWindow, whole } from "../../charts/gantt/window";
import { language, texts } from "../../i18n";
import { isDark } from "../../palette";
import { handleKey } from "./keys";
import { exportWidth, lookOf } from "./look";
import { listen, type Pointed } from "./mouse";
import type { GanttState } from "./state";
import { Tooltip } from "./tooltip";

interface Props {
  state: GanttState;
  label: string;
  describedBy: string;
}

export function GanttChart({ state, label, describedBy }: Props) {
  const stage = useRef<HTMLDivElement>(null);
  const [pointed, setPointed] = useState<Pointed | null>(null);
  const dark = isDark.value;
  const shown = language.value;
  const layout = state.layout.value;
  const { scene, option } = useMemo(() => {
    const scene = sceneOf(state);
    return { scene, option: ganttOption(scene, scene.view, lookOf(state.model, dark), "canvas") };
  }, [state, layout, dark, shown]);
  const current = useRef(scene);
  current.current = scene;

  /** Draw what has changed, at most once a frame. */
  function follow(chart: EChartsType): () => void {
    let request = 0;
    let drawn: TimeWindow = state.view.peek();
    const draw = () => {
      request = 0;
      const { startNs, endNs } = state.view.peek();
      drawn = state.view.peek();
      chart.dispatchAction(
        { type: "dataZoom", dataZoomIndex: 0, startValue: startNs, endValue: endNs },
        { silent: true, flush: true },
      );
    };
    const stop = effect(() => {
      const before = sceneKey(current.current);
      updateScene(current.current, state);
      if (before !== sceneKey(current.current) || !isSame(drawn, state.view.value)) {
        request ||= requestAnimationFrame(draw);
      }
    });
    chart.on("datazoom", (event) => {
      const { start, end } = event as { start?: number; end?: number };
      if (start !== undefined && end !== undefined) {
        const { endNs } = state.model;
        drawn = { startNs: (start / 100) * endNs, endNs: (end / 100) * endNs };
        state.view.value = drawn;
      }
    });
    return () => {
      stop();
      cancelAnimationFrame(request);
    };
  }

  useEffect(() => {
    const element = stage.current;
    return element ? listen(element, state, setPointed) : undefined;
  }, [state]);

  return (
    <div
      ref={stage}
      class="gantt-stage"
      // biome-ignore lint/a11y/noNoninteractiveTabindex: the operations are reached by keys.
      tabIndex={0}
      role="application"
      aria-label={texts().gantt.chartName}
      aria-describedby={describedBy}
      onKeyDown={(event) => {
        if (event.target === event.currentTarget && handleKey(event, state)) {
          event.preventDefault();
        }
      }}
    >
      <Chart
        label={label}
        option={option}
        height={layout.height}
        onReady={follow}
        exported={() => ({
          option: exportOption(state, dark),
          width: exportWidth(state.model),
          height: layout.height,
        })}
      />
      {pointed && (
        <Tooltip model={state.model} layout={layout} view={state.view.value} {...pointed} />
      )}
    </div>
  );
}

function sceneOf(state: GanttState): Scene {
  return {
    model: state.model,
    layout: state.layout.value,
    view: state.view.peek(),
    isOpShown: state.isOpShown.peek(),
    microBatch: state.microBatch.peek(),
    showsCriticalPath: state.showsCriticalPath.peek(),
    selected: state.selected.peek(),
  };
}

function updateScene(scene: Scene, state: GanttState): void {
  scene.view = state.view.value;
  scene.microBatch = state.microBatch.value;
  scene.showsCriticalPath = state.showsCriticalPath.value;
  scene.selected = state.selected.value;
}

function sceneKey(scene: Scene): string {
  return `${scene.microBatch} ${scene.showsCriticalPath} ${scene.selected}`;
}

/** The whole schedule, wherever the chart on the page is zoomed to. */
function exportOption(state: GanttState, dark: boolean) {
  const view = whole(state.model.endNs);
  return ganttOption({ ...sceneOf(state), view }, view, lookOf(state.model, dark), "elements");
}
