/** An ECharts shape that is drawn by a function, so that one element can stand for thousands. */

import { graphic } from "echarts/core";
import type { PathTarget } from "./paint";

const NAME = "loadmaster-painter";

type Paint = (path: PathTarget) => void;

interface PainterShape {
  /** In an object of its own: ECharts copies what has a length, as functions have. */
  painter: { paint: Paint };
}

const Drawn = graphic.extendShape({
  shape: { painter: { paint: () => {} } },
  buildPath(path, shape) {
    (shape as PainterShape).painter.paint(path);
  },
});

class Painter extends Drawn {
  /** The boxes are searched instead: to look for the mouse in a path would draw it once more. */
  override contain(): boolean {
    return false;
  }

  /** Nobody asks for it but those who would draw the path once more to find it. */
  override getBoundingRect() {
    return new graphic.BoundingRect(0, 0, 0, 0);
  }
}

graphic.registerShape(NAME, Painter);

interface Style {
  fill?: string;
  stroke?: string;
  lineWidth?: number;
  lineDash?: number[];
  opacity?: number;
}

/** An element for a custom series. */
export function painted(paint: Paint, style: Style) {
  // Without a fill of its own, a shape would be filled black.
  return {
    type: NAME,
    silent: true,
    shape: { painter: { paint } },
    style: { fill: "none", ...style },
  };
}
