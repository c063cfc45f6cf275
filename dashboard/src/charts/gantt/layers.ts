/** The layers of the chart, bottom first: each is one element, however many boxes it draws. */

import type { IdleReason, Op } from "../../api/types";
import { type ChartColours, IDLE_COLOURS, OPERATION_COLOURS } from "../../palette";
import { paintIdle, paintIdleMarks } from "./idle";
import type { MemoryLane } from "./layout";
import {
  paintLaneFoot,
  paintLimit,
  paintOverLimit,
  paintOverLimitMarks,
  paintSteps,
} from "./memory";
import { OPERATIONS, type Row } from "./model";
import { type PathTarget, paintOutline, paintPath, pathOfMicroBatch } from "./paint";
import { painted } from "./painter";
import {
  type Boxes,
  collectBoxes,
  emptyBoxes,
  type Frame,
  type Rectangles,
  type Scene,
} from "./scene";
import { type TextMode, textLayer } from "./text";

export const IDLE_REASONS: readonly IdleReason[] = [
  "fill",
  "dependency",
  "memory",
  "link",
  "slack",
  "drain",
];

/** What of the page a chart depends on: colours and words. */
export interface Look {
  colours: ChartColours;
  words: {
    row: (row: Row) => string;
    lane: (lane: MemoryLane) => string;
    laneTitle: (lane: MemoryLane) => string;
    makespan: string;
    lowerBound: string | null;
    memory: string;
  };
}

/** Makes an element of the chart for the part of time in view. */
export type Layer = (frame: Frame) => object | null;

const DIM = 0.22;

export function rowLayers(scene: Scene, look: Look, texts: TextMode): Layer[] {
  const { colours } = look;
  const boxes = emptyBoxes();
  const marks = [...IDLE_REASONS, "epilogue" as const].flatMap((reason): Layer[] => [
    (frame) =>
      painted((path) => paintIdle(path, scene, frame, reason), {
        fill: IDLE_COLOURS[reason],
        opacity: 0.13,
      }),
    (frame) =>
      painted((path) => paintIdleMarks(path, scene, frame, reason), {
        stroke: IDLE_COLOURS[reason],
        lineWidth: 1,
        opacity: 0.5,
      }),
  ]);
  return [
    (frame) => {
      collectBoxes(scene, frame, boxes);
      return painted((path) => paintRows(path, scene, frame), { fill: colours.idle });
    },
    ...marks,
    ...OPERATIONS.flatMap((op) => boxLayers(boxes, op)),
    () => painted(filled(boxes.chunks), { fill: colours.surface, opacity: 0.45 }),
    (frame) => criticalPath(scene, frame, colours),
    (frame) => microBatchPath(scene, frame, colours),
    (frame) => selection(scene, frame, colours),
    () => textLayer(texts, boxes.labels),
  ];
}

function boxLayers(boxes: Boxes, op: Op): Layer[] {
  const { fill } = OPERATION_COLOURS[op];
  return [
    () => painted(filled(boxes.dim[op]), { fill, opacity: DIM }),
    () => painted(filled(boxes.lit[op]), { fill }),
  ];
}

function filled(rectangles: Rectangles) {
  return (path: PathTarget) =>
    rectangles.each((x, y, width, height) => path.rect(x, y, width, height));
}

function paintRows(path: PathTarget, scene: Scene, frame: Frame): void {
  for (const { top, height } of scene.layout.rows) {
    path.rect(frame.x, frame.y + top + 1, frame.width, height - 2);
  }
}

function criticalPath(scene: Scene, frame: Frame, colours: ChartColours) {
  if (!scene.showsCriticalPath) {
    return null;
  }
  const ops = scene.model.timeline.critical_path;
  return painted((path) => paintPath(path, scene, frame, ops), {
    stroke: colours.text,
    lineWidth: 2,
  });
}

function microBatchPath(scene: Scene, frame: Frame, colours: ChartColours) {
  const { microBatch } = scene;
  if (microBatch === null) {
    return null;
  }
  const ops = pathOfMicroBatch(scene, microBatch);
  return painted((path) => paintPath(path, scene, frame, ops), {
    stroke: colours.text,
    lineWidth: 1.5,
    lineDash: [4, 3],
  });
}

function selection(scene: Scene, frame: Frame, colours: ChartColours) {
  const { selected } = scene;
  if (selected === null) {
    return null;
  }
  return painted((path) => paintOutline(path, scene, frame, selected), {
    stroke: colours.text,
    lineWidth: 3,
  });
}

export function memoryLayers(scene: Scene, look: Look): Layer[] {
  const { colours } = look;
  const { lanes } = scene.layout;
  const each =
    (paint: (path: PathTarget, lane: MemoryLane, frame: Frame) => void, frame: Frame) =>
    (path: PathTarget) => {
      for (const lane of lanes) {
        paint(path, lane, frame);
      }
    };
  return [
    (frame) => painted(each(paintLaneFoot, frame), { stroke: colours.grid, lineWidth: 1 }),
    (frame) =>
      painted(
        each((path, lane) => paintSteps(path, lane, frame, true), frame),
        {
          fill: colours.accent,
          opacity: 0.25,
        },
      ),
    (frame) =>
      painted(
        each((path, lane) => paintSteps(path, lane, frame, false), frame),
        {
          stroke: colours.accent,
          lineWidth: 1.2,
        },
      ),
    (frame) => painted(each(paintOverLimit, frame), { fill: colours.limit, opacity: 0.45 }),
    (frame) => painted(each(paintOverLimitMarks, frame), { stroke: colours.limit, lineWidth: 1 }),
    (frame) =>
      painted(each(paintLimit, frame), { stroke: colours.limit, lineWidth: 1.5, lineDash: [6, 4] }),
  ];
}
