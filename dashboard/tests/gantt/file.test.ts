import { expect, it } from "vitest";
import { echarts } from "../../src/charts/echarts";
import { layoutOf } from "../../src/charts/gantt/layout";
import { buildModel } from "../../src/charts/gantt/model";
import { ganttOption } from "../../src/charts/gantt/option";
import { exportWidth, lookOf } from "../../src/views/gantt/look";
import { GanttState } from "../../src/views/gantt/state";
import { syntheticTimeline } from "./synthetic";

function svgOf(timeline = syntheticTimeline({ devices: 2, microBatches: 4 })): string {
  const model = buildModel(timeline);
  const state = new GanttState(model);
  const isOpShown = state.isOpShown.value;
  const layout = layoutOf(model, { kind: "all" }, isOpShown);
  const view = { startNs: 0, endNs: model.endNs };
  const scene = {
    model,
    layout,
    view,
    isOpShown,
    microBatch: null,
    showsCriticalPath: true,
    selected: null,
  };
  const width = exportWidth(model);
  const chart = echarts.init(null, null, {
    renderer: "svg",
    ssr: true,
    width,
    height: layout.height,
  });
  chart.setOption(ganttOption(scene, view, lookOf(model, false), "elements"));
  const svg = chart.renderToSVGString();
  chart.dispose();
  return svg;
}

function textsOf(svg: string): string[] {
  return [...svg.matchAll(/<text[^>]*>([^<]*)<\/text>/g)].map((match) => match[1] ?? "");
}

it("has every operation's label, the rows' names and the lines' names in an SVG file", () => {
  const timeline = syntheticTimeline({ devices: 2, microBatches: 4 });
  const texts = textsOf(svgOf(timeline));
  const labels = texts.filter((text) => /^[FBWOR]\d/.test(text));
  expect(labels).toHaveLength(timeline.ops.op.length);
  expect(texts).toContain("Device 0");
  expect(texts).toContain("O pcie 1 (1)");
  expect(texts.some((text) => text.startsWith("makespan"))).toBe(true);
  expect(texts.some((text) => text.startsWith("lower bound"))).toBe(true);
});

it("draws boxes, idle time and memory in their colours", () => {
  const svg = svgOf();
  for (const colour of ["#0072b2", "#009e73", "#e69f00", "#cc79a7", "#56b4e9", "#8a94a3"]) {
    expect(svg).toContain(colour);
  }
});

it("keeps markup in names as text", () => {
  const timeline = syntheticTimeline({ devices: 1, microBatches: 1 });
  for (const device of timeline.devices) {
    device.host_link = "<img src=x onerror=alert(1)>";
  }
  const svg = svgOf(timeline);
  expect(svg).not.toContain("<img");
  expect(svg).toContain("&lt;img");
});

it("is wide enough for the numbers of the fullest row, up to what browsers draw", () => {
  const small = buildModel(syntheticTimeline({ devices: 1, microBatches: 2 }));
  const large = buildModel(syntheticTimeline({ devices: 2, microBatches: 100 }));
  expect(exportWidth(small)).toBe(1600);
  expect(exportWidth(large)).toBe(6600);
});
