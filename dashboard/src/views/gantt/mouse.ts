/** What the mouse does in the chart. */

import { type Hit, hitAt } from "../../charts/gantt/hit";
import { LEFT, RIGHT } from "../../charts/gantt/layout";
import { isSame, panBy, type TimeWindow, zoomAt } from "../../charts/gantt/window";
import type { GanttState } from "./state";

export interface Pointed {
  hit: Hit;
  x: number;
  y: number;
  /** The chart's width. */
  width: number;
}

/** A press that moves less than this is a click. */
const DRAG_PIXELS = 4;
const WHEEL_RATE = 0.0015;
/** Some browsers count the wheel in lines. */
const LINE_PIXELS = 16;

type Point = (pointed: Pointed | null) => void;

function wheelPixels(event: WheelEvent, delta: number): number {
  return event.deltaMode === WheelEvent.DOM_DELTA_LINE ? delta * LINE_PIXELS : delta;
}

/** The mouse: the wheel zooms at the pointer, with Shift it pans, as dragging does; a click selects. */
export function listen(element: HTMLElement, state: GanttState, point: Point): () => void {
  let pressed: { x: number; view: TimeWindow; hasMoved: boolean } | null = null;

  function place(event: MouseEvent) {
    const canvas = element.querySelector(".chart-canvas");
    const box = (canvas ?? element).getBoundingClientRect();
    const x = event.clientX - box.left;
    const y = event.clientY - box.top;
    const width = Math.max(1, box.width - LEFT - RIGHT);
    const view = state.view.peek();
    const nsPerPixel = (view.endNs - view.startNs) / width;
    const layout = state.layout.peek();
    const isInside = x >= LEFT && x <= LEFT + width && y >= 0 && y < layout.sliderTop - 4;
    return {
      x,
      y,
      width: box.width,
      nsPerPixel,
      timeNs: view.startNs + (x - LEFT) * nsPerPixel,
      isInside,
    };
  }

  function hit(event: MouseEvent): Hit | null {
    const at = place(event);
    return at.isInside
      ? hitAt(state.model, state.layout.peek(), state.isVisible, at.timeNs, at.y, at.nsPerPixel * 2)
      : null;
  }

  const onWheel = (event: WheelEvent) => {
    const at = place(event);
    if (!at.isInside) {
      return;
    }
    const { endNs } = state.model;
    const view = state.view.peek();
    const isSideways = event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY);
    const by = wheelPixels(event, event.deltaX || event.deltaY);
    const next = isSideways
      ? panBy(view, by * at.nsPerPixel, endNs)
      : zoomAt(view, at.timeNs, Math.exp(wheelPixels(event, event.deltaY) * WHEEL_RATE), endNs);
    // Where there is nothing more to zoom or to pan, the page scrolls.
    if (!isSame(next, view)) {
      event.preventDefault();
      state.view.value = next;
      point(null);
    }
  };
  const onDown = (event: PointerEvent) => {
    const at = place(event);
    if (event.button === 0 && at.isInside) {
      pressed = { x: at.x, view: state.view.peek(), hasMoved: false };
    }
  };
  const onMove = (event: PointerEvent) => {
    if (!pressed) {
      const found = hit(event);
      const at = place(event);
      point(found && { hit: found, x: at.x, y: at.y, width: at.width });
      return;
    }
    const at = place(event);
    if (!pressed.hasMoved && Math.abs(at.x - pressed.x) >= DRAG_PIXELS) {
      pressed.hasMoved = true;
      element.setPointerCapture(event.pointerId);
      point(null);
    }
    if (pressed.hasMoved) {
      const byNs = (pressed.x - at.x) * at.nsPerPixel;
      state.view.value = panBy(pressed.view, byNs, state.model.endNs);
    }
  };
  const onUp = (event: PointerEvent) => {
    if (pressed && !pressed.hasMoved) {
      const found = hit(event);
      const op = found?.op ?? null;
      state.select(op);
      if (op !== null) {
        state.toggleMicroBatch(op);
      }
    }
    pressed = null;
  };
  const onLeave = () => point(null);
  const onCancel = () => {
    pressed = null;
  };
  element.addEventListener("wheel", onWheel, { passive: false });
  element.addEventListener("pointerdown", onDown);
  element.addEventListener("pointermove", onMove);
  element.addEventListener("pointerup", onUp);
  element.addEventListener("pointerleave", onLeave);
  element.addEventListener("pointercancel", onCancel);
  return () => {
    element.removeEventListener("wheel", onWheel);
    element.removeEventListener("pointerdown", onDown);
    element.removeEventListener("pointermove", onMove);
    element.removeEventListener("pointerup", onUp);
    element.removeEventListener("pointerleave", onLeave);
    element.removeEventListener("pointercancel", onCancel);
  };
}
