/** Moving and zooming a drawing by wheel, drag, buttons and keys. */

import type { RefObject } from "preact";
import { useCallback, useEffect, useRef, useState } from "preact/hooks";
import type { Point } from "./layout";
import {
  centred,
  fitted,
  initial,
  panned,
  revealing,
  type Size,
  type Viewport,
  zoomed,
} from "./viewport";

const KEY_STEP = 60;
const WHEEL_ZOOM = 1.0015;
/** A press that moves less is a click. */
const DRAG_FROM = 4;

interface Drag {
  pointer: number;
  x: number;
  y: number;
  isMoving: boolean;
}

/** `focus`: what is in the middle at first, where all of the drawing would be too small to read. */
export function usePanZoom(frame: RefObject<HTMLElement | null>, drawing: Size, focus: Point) {
  const [view, setView] = useState<Viewport>({ x: 0, y: 0, scale: 1 });
  const drag = useRef<Drag | null>(null);

  const screen = useCallback(
    (): Size => ({
      width: frame.current?.clientWidth || 1,
      height: frame.current?.clientHeight || 1,
    }),
    [frame],
  );
  const zoom = useCallback(
    (factor: number, around?: Point) => {
      const { width, height } = screen();
      setView((before) => zoomed(before, around ?? { x: width / 2, y: height / 2 }, factor));
    },
    [screen],
  );
  const fit = useCallback(() => setView(fitted(drawing, screen())), [drawing, screen]);
  const reveal = useCallback(
    (point: Point, room: number) => setView((before) => revealing(before, point, screen(), room)),
    [screen],
  );

  const centre = useCallback(
    (point: Point) => setView((before) => centred(before.scale, point, drawing, screen())),
    [drawing, screen],
  );

  useEffect(() => setView(initial(drawing, screen(), focus)), [drawing, screen, focus]);

  // The page must not scroll while the wheel zooms: listeners of JSX could not prevent it.
  useEffect(() => {
    const element = frame.current;
    if (!element) {
      return;
    }
    const onWheel = (event: WheelEvent) => {
      if (!event.ctrlKey && !event.metaKey && document.activeElement !== element) {
        return;
      }
      event.preventDefault();
      const box = element.getBoundingClientRect();
      const around = { x: event.clientX - box.left, y: event.clientY - box.top };
      zoom(WHEEL_ZOOM ** -event.deltaY, around);
    };
    element.addEventListener("wheel", onWheel, { passive: false });
    return () => element.removeEventListener("wheel", onWheel);
  }, [frame, zoom]);

  const handlers = {
    onKeyDown: (event: KeyboardEvent) => {
      const act = keyAction(event.key, zoom, fit, (x, y) => setView((now) => panned(now, x, y)));
      if (act && !event.ctrlKey && !event.metaKey && !event.altKey) {
        event.preventDefault();
        act();
      }
    },
    onPointerDown: (event: PointerEvent) => {
      drag.current = {
        pointer: event.pointerId,
        x: event.clientX,
        y: event.clientY,
        isMoving: false,
      };
    },
    onPointerMove: (event: PointerEvent) => {
      const own = drag.current;
      if (!own || own.pointer !== event.pointerId) {
        return;
      }
      if (event.buttons === 0) {
        // Let go outside of the drawing before it was captured.
        drag.current = null;
        return;
      }
      const [x, y] = [event.clientX - own.x, event.clientY - own.y];
      if (!own.isMoving && Math.hypot(x, y) < DRAG_FROM) {
        return;
      }
      // Captured only once it moves: a click is to reach the operator below.
      frame.current?.setPointerCapture(event.pointerId);
      drag.current = { ...own, x: event.clientX, y: event.clientY, isMoving: true };
      setView((before) => panned(before, x, y));
    },
    onPointerUp: () => {
      drag.current = null;
    },
    onPointerCancel: () => {
      drag.current = null;
    },
  };
  return { view, screen, zoom, fit, centre, reveal, handlers };
}

function keyAction(
  key: string,
  zoom: (factor: number) => void,
  fit: () => void,
  pan: (x: number, y: number) => void,
): (() => void) | undefined {
  const actions: Record<string, () => void> = {
    ArrowLeft: () => pan(KEY_STEP, 0),
    ArrowRight: () => pan(-KEY_STEP, 0),
    ArrowUp: () => pan(0, KEY_STEP),
    ArrowDown: () => pan(0, -KEY_STEP),
    "+": () => zoom(1.25),
    "=": () => zoom(1.25),
    "-": () => zoom(0.8),
    "0": fit,
  };
  return actions[key];
}
