/** The chart's option: axes and zoom by ECharts, everything else in two custom series of few elements. */

import type { EChartsCoreOption } from "echarts/core";
import { number, scaleOf } from "../../format";
import { markText } from "../axes";
import { type Layer, type Look, memoryLayers, rowLayers } from "./layers";
import { LEFT, RIGHT, SLIDER_HEIGHT } from "./layout";
import { noteLayers } from "./notes";
import type { Scene } from "./scene";
import type { TextMode } from "./text";
import type { TimeWindow } from "./window";

interface ItemParams {
  coordSys: { x: number; y: number; width: number; height: number };
  dataIndex: number;
}

interface ItemApi {
  coord(value: [number, number]): [number, number];
}

export function ganttOption(
  scene: Scene,
  view: TimeWindow,
  look: Look,
  texts: TextMode,
): EChartsCoreOption {
  const { layout, model } = scene;
  const { colours } = look;
  const hasMemory = layout.lanes.length > 0;
  const timeAxis = {
    type: "value",
    min: 0,
    max: model.endNs,
    axisLine: { onZero: false, lineStyle: { color: colours.faintText } },
    splitLine: { show: false },
    axisLabel: {
      color: colours.text,
      formatter: timeLabels(scene),
      hideOverlap: true,
      alignMaxLabel: "right",
    },
  };
  // The grids keep their sides whatever their labels are: the mouse is looked for between these.
  const sides = { left: LEFT, right: RIGHT, outerBoundsMode: "none" };
  const grids = [
    { ...sides, top: layout.rowsTop, height: layout.rowsHeight },
    { ...sides, top: layout.memoryTop, height: layout.memoryHeight },
  ];
  const xAxes = [
    { ...timeAxis, gridIndex: 0 },
    { ...timeAxis, gridIndex: 1, show: false },
  ];
  const yAxes = [pixelAxis(0, layout.rowsHeight), memoryAxis(scene, look)];
  const series = [
    layered(0, rowLayers(scene, look, texts), model.endNs, true),
    layered(0, noteLayers(scene, look, texts), model.endNs, false),
    layered(1, memoryLayers(scene, look), model.endNs, true),
  ];
  const used = hasMemory ? 2 : 1;
  return {
    animation: false,
    aria: { enabled: false },
    grid: grids.slice(0, used),
    xAxis: xAxes.slice(0, used),
    yAxis: yAxes.slice(0, used),
    series: series.slice(0, used + 1),
    dataZoom: [
      {
        type: "slider",
        show: texts === "canvas",
        xAxisIndex: hasMemory ? [0, 1] : [0],
        filterMode: "none",
        startValue: view.startNs,
        endValue: view.endNs,
        left: LEFT,
        right: RIGHT,
        top: layout.sliderTop,
        height: SLIDER_HEIGHT,
        showDataShadow: false,
        showDetail: false,
        brushSelect: false,
        borderColor: colours.grid,
        handleStyle: { borderColor: colours.faintText },
        moveHandleSize: 0,
      },
    ],
  };
}

function memoryAxis(scene: Scene, look: Look) {
  const { lanes, memoryHeight, bytesStep } = scene.layout;
  const only = lanes[0];
  if (bytesStep === null || !only) {
    return pixelAxis(1, memoryHeight);
  }
  return {
    type: "value",
    gridIndex: 1,
    min: 0,
    max: only.topBytes,
    interval: bytesStep,
    axisLabel: { color: look.colours.text, formatter: markOf(only.topBytes), showMaxLabel: false },
    splitLine: { lineStyle: { color: look.colours.grid } },
  };
}

/** An axis in pixels from the top; what its rows are called is drawn with them. */
function pixelAxis(gridIndex: number, height: number) {
  return { type: "value", gridIndex, inverse: true, min: 0, max: Math.max(1, height), show: false };
}

/** A series with an element per layer, which lie in the order of the list. */
function layered(axisIndex: number, layers: readonly Layer[], endNs: number, clip: boolean) {
  return {
    type: "custom",
    xAxisIndex: axisIndex,
    yAxisIndex: axisIndex,
    silent: true,
    clip,
    data: layers.map(() => [0, 0]),
    renderItem(params: ItemParams, api: ItemApi) {
      const { x, y, width, height } = params.coordSys;
      const zero = api.coord([0, 0])[0];
      const perNs = (api.coord([endNs, 0])[0] - zero) / endNs;
      const startNs = (x - zero) / perNs;
      const frame = { x, y, width, height, startNs, endNs: startNs + width / perNs };
      return layers[params.dataIndex]?.(frame) ?? null;
    },
  };
}

function markOf(topBytes: number) {
  const scale = scaleOf("bytes", [topBytes]);
  return (size: number) => markText(size, scale);
}

/** More digits than these are harder to read than another unit. */
const MOST_DIGITS = 3;

/** Times in the unit of the makespan, or of the part that is seen where that has too many digits. */
function timeLabels(scene: Scene) {
  return (timeNs: number) => {
    const spanNs = scene.view.endNs - scene.view.startNs;
    const whole = scaleOf("time", [scene.model.endNs]).unit;
    const unit =
      digitsOf(whole.size, spanNs) > MOST_DIGITS ? scaleOf("time", [spanNs]).unit : whole;
    return `${number(timeNs / unit.size, digitsOf(unit.size, spanNs))} ${unit.name}`;
  };
}

/** As many as tell neighbouring ticks apart. */
function digitsOf(unitNs: number, spanNs: number): number {
  return unitNs === 1 ? 0 : Math.max(0, Math.ceil(Math.log10(unitNs / (spanNs / 10))));
}
