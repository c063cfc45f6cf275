/** Which part of a drawing is seen, and how large. */

import type { Point } from "./layout";

export interface Viewport {
  /** Where the drawing's origin is on the screen, in pixels. */
  x: number;
  y: number;
  scale: number;
}

export interface Size {
  width: number;
  height: number;
}

const LEAST_SCALE = 0.05;
const MOST_SCALE = 4;
/** Below this, texts cannot be read: a drawing is rather shown in part. */
const READABLE_SCALE = 0.8;

/** Larger or smaller around a point of the screen, which stays where it is. */
export function zoomed(view: Viewport, around: Point, factor: number): Viewport {
  const scale = Math.min(MOST_SCALE, Math.max(LEAST_SCALE, view.scale * factor));
  const ratio = scale / view.scale;
  return {
    x: around.x - (around.x - view.x) * ratio,
    y: around.y - (around.y - view.y) * ratio,
    scale,
  };
}

export function panned(view: Viewport, x: number, y: number): Viewport {
  return { ...view, x: view.x + x, y: view.y + y };
}

/** All of the drawing, in the middle. */
export function fitted(drawing: Size, screen: Size): Viewport {
  const scale = Math.min(1, screen.width / drawing.width, screen.height / drawing.height);
  return {
    x: (screen.width - drawing.width * scale) / 2,
    y: (screen.height - drawing.height * scale) / 2,
    scale,
  };
}

/** All of the drawing, or the part around `focus` where all of it would be too small to read. */
export function initial(drawing: Size, screen: Size, focus: Point): Viewport {
  const whole = fitted(drawing, screen);
  return whole.scale >= READABLE_SCALE ? whole : centred(READABLE_SCALE, focus, drawing, screen);
}

/** A point in the middle, as far as that shows nothing beyond the drawing. */
export function centred(scale: number, point: Point, drawing: Size, screen: Size): Viewport {
  return {
    x: offset(point.x * scale, drawing.width * scale, screen.width),
    y: offset(point.y * scale, drawing.height * scale, screen.height),
    scale,
  };
}

/** The part of the drawing that is seen, in its own coordinates. */
export function seen(view: Viewport, screen: Size): Point & Size {
  return {
    x: -view.x / view.scale,
    y: -view.y / view.scale,
    width: screen.width / view.scale,
    height: screen.height / view.scale,
  };
}

function offset(position: number, length: number, room: number): number {
  return length <= room
    ? (room - length) / 2
    : Math.max(room - length, Math.min(0, room / 2 - position));
}

/** Move as little as shows a point with some room around it. */
export function revealing(view: Viewport, point: Point, screen: Size, room: number): Viewport {
  const x = view.x + point.x * view.scale;
  const y = view.y + point.y * view.scale;
  return panned(view, shift(x, screen.width, room), shift(y, screen.height, room));
}

function shift(position: number, length: number, room: number): number {
  const kept = Math.min(room, length / 2);
  return Math.min(length - kept, Math.max(kept, position)) - position;
}
