/** What is written around the boxes: names of rows, the makespan and the lower bound, titles. */

import type { Layer, Look } from "./layers";
import { LEFT } from "./layout";
import { type PathTarget, xOf } from "./paint";
import { painted } from "./painter";
import type { Frame, Scene } from "./scene";
import { shortened, type TextMode, type TextSpot, textLayer } from "./text";

const FONT_SIZE = 11;
/** The lower bound's name stands above the makespan's, as the two are often close. */
const BOUND_ABOVE = 34;
const MAKESPAN_ABOVE = 20;

export function noteLayers(scene: Scene, look: Look, texts: TextMode): Layer[] {
  const { makespan_ns, lower_bound_ns } = scene.model.timeline;
  const { colours } = look;
  const makespan = { timeNs: makespan_ns, above: MAKESPAN_ABOVE };
  const bound = lower_bound_ns === null ? null : { timeNs: lower_bound_ns, above: BOUND_ABOVE };
  const lines: Layer[] = [
    (frame) =>
      painted((path) => paintTimeLine(path, frame, makespan), {
        stroke: colours.text,
        lineWidth: 1.5,
      }),
    (frame) =>
      bound &&
      painted((path) => paintTimeLine(path, frame, bound), {
        stroke: colours.limit,
        lineWidth: 1.5,
        lineDash: [5, 4],
      }),
  ];
  const spots = (frame: Frame): TextSpot[] => [
    ...rowNames(scene, look, frame),
    ...laneNames(scene, look, frame),
    ...lineName(frame, makespan, look.words.makespan, colours.text),
    ...(bound ? lineName(frame, bound, look.words.lowerBound ?? "", colours.limit) : []),
  ];
  return [...lines, (frame) => textLayer(texts, spots(frame))];
}

interface TimeLine {
  timeNs: number;
  /** How far the line reaches above the rows. */
  above: number;
}

function isInView(frame: Frame, { timeNs }: TimeLine): boolean {
  const x = xOf(frame, timeNs);
  // The end of the axis is the makespan mostly, give or take what is lost in rounding.
  return x >= frame.x - 1 && x <= frame.x + frame.width + 1;
}

function xOfLine(frame: Frame, { timeNs }: TimeLine): number {
  return Math.min(xOf(frame, timeNs), frame.x + frame.width - 0.5);
}

function paintTimeLine(path: PathTarget, frame: Frame, line: TimeLine): void {
  if (isInView(frame, line)) {
    const x = xOfLine(frame, line);
    path.moveTo(x, frame.y - line.above);
    path.lineTo(x, frame.y + frame.height);
  }
}

function lineName(frame: Frame, line: TimeLine, text: string, fill: string): TextSpot[] {
  if (!isInView(frame, line)) {
    return [];
  }
  const x = xOfLine(frame, line);
  const isLeft = x < frame.x + frame.width / 3;
  const align = isLeft ? "left" : "right";
  return [spot(text, isLeft ? x + 5 : x - 5, frame.y - line.above + 6, fill, align)];
}

function rowNames(scene: Scene, look: Look, frame: Frame): TextSpot[] {
  return scene.layout.rows.map(({ row, top, height }) =>
    spot(
      nameOf(look.words.row(row)),
      frame.x - 8,
      frame.y + top + height / 2,
      look.colours.text,
      "right",
    ),
  );
}

/** The title of the memory, and the lanes' names; one lane alone has an axis, and its name in the title. */
function laneNames(scene: Scene, look: Look, frame: Frame): TextSpot[] {
  const { lanes, memoryTop, rowsTop, bytesStep } = scene.layout;
  const { words, colours } = look;
  const foot = frame.y - rowsTop + memoryTop;
  const only = bytesStep === null ? undefined : lanes[0];
  const title = only ? words.laneTitle(only) : words.memory;
  const names = only
    ? []
    : lanes.map((lane) =>
        spot(
          nameOf(words.lane(lane)),
          frame.x - 8,
          foot + lane.top + lane.height / 2,
          colours.text,
          "right",
        ),
      );
  return [spot(title, frame.x, foot - 12, colours.text, "left"), ...names];
}

function nameOf(text: string): string {
  return shortened(text, LEFT - 12, FONT_SIZE);
}

function spot(
  text: string,
  x: number,
  y: number,
  fill: string,
  align: TextSpot["align"],
): TextSpot {
  return { text, x, y, fontSize: FONT_SIZE, fill, align, opacity: 1 };
}
