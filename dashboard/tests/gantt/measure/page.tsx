/**
 * A page that shows a Gantt chart alone and measures it: `window.measureGantt` is called from outside.
 * With `?timeline=ADDRESS` it shows that timeline, without it a synthetic one of `?devices=&microBatches=&chunks=`.
 */

import { render } from "preact";
import type { Timeline } from "../../../src/api/types";
import { followTheme } from "../../../src/palette";
import "../../../src/style.css";
import { GanttView } from "../../../src/views/gantt";
import { syntheticTimeline } from "../synthetic";
import { type Figures, measurePan, nextFrames } from "./frames";

declare global {
  interface Window {
    measureGantt: typeof measureGantt;
  }
}

const parameters = new URLSearchParams(location.search);

/** First render of a synthetic timeline, then pans: of all but all of it, of half of it, and of an eighth. */
async function measureGantt(
  devices: number,
  microBatches: number,
): Promise<{
  operations: number;
  firstRenderMs: number;
  whole: Figures;
  half: Figures;
  close: Figures;
}> {
  const root = emptyRoot();
  const timeline = syntheticTimeline({ devices, microBatches });
  await nextFrames(5);
  const begin = performance.now();
  render(<GanttView timeline={timeline} title="Synthetic" />, root);
  await firstPaint(root);
  const firstRenderMs = performance.now() - begin;
  await nextFrames(10);
  const canvas = root.querySelector<HTMLElement>(".chart-canvas");
  if (!canvas) {
    throw new Error("there is no chart");
  }
  return {
    operations: timeline.ops.op.length,
    firstRenderMs,
    whole: await measurePan(canvas, 1.25),
    half: await measurePan(canvas, 2),
    close: await measurePan(canvas, 8),
  };
}

/** The frame after the one in which the chart's canvas has appeared: by then it is painted. */
async function firstPaint(root: Element): Promise<void> {
  while (!root.querySelector("canvas")) {
    await nextFrames(1);
  }
  await nextFrames(2);
}

function emptyRoot(): HTMLElement {
  const root = document.getElementById("app");
  if (!root) {
    throw new Error("there is no place for the chart");
  }
  render(null, root);
  return root;
}

async function shownTimeline(): Promise<Timeline> {
  const address = parameters.get("timeline");
  if (address !== null) {
    return (await fetch(address)).json();
  }
  return syntheticTimeline({
    devices: Number(parameters.get("devices") ?? 4),
    microBatches: Number(parameters.get("microBatches") ?? 8),
    chunks: Number(parameters.get("chunks") ?? 1),
  });
}

followTheme();
window.measureGantt = measureGantt;
if (!parameters.has("empty")) {
  render(<GanttView timeline={await shownTimeline()} title="Schedule" />, emptyRoot());
}
