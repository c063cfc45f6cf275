import type { ChartColours } from "../../palette";
import { type GraphLayout, linePath, NODE_HEIGHT, NODE_WIDTH, type Point } from "./layout";
import { type Size, seen, type Viewport } from "./viewport";

const MOST_WIDTH = 130;
const MOST_HEIGHT = 190;
const MARGIN = 4;

/**
 * All of the drawing in a corner, with a frame around the part that is seen; a click moves there.
 * Nothing where all is seen. It is for the mouse: keys move the drawing itself.
 */
export function Overview(props: {
  placed: GraphLayout;
  view: Viewport;
  screen: () => Size;
  selected: number | null;
  colours: ChartColours;
  onCentre: (point: Point) => void;
}) {
  const { placed, colours } = props;
  const part = seen(props.view, props.screen());
  const isWhole =
    part.x <= 0 &&
    part.y <= 0 &&
    part.x + part.width >= placed.width &&
    part.y + part.height >= placed.height;
  if (isWhole) {
    return null;
  }
  const scale = Math.min(MOST_WIDTH / placed.width, MOST_HEIGHT / placed.height);
  const [width, height] = [placed.width * scale, placed.height * scale];
  const onPointerDown = (event: PointerEvent & { currentTarget: SVGSVGElement }) => {
    event.stopPropagation();
    const box = event.currentTarget.getBoundingClientRect();
    const [x, y] = [event.clientX - box.left - MARGIN, event.clientY - box.top - MARGIN];
    props.onCentre({ x: x / scale, y: y / scale });
  };
  return (
    <svg
      class="shard-overview"
      width={width + 2 * MARGIN}
      height={height + 2 * MARGIN}
      aria-hidden="true"
      onPointerDown={onPointerDown}
    >
      <g transform={`translate(${MARGIN} ${MARGIN}) scale(${scale})`}>
        {placed.edges.map((place) => (
          <path
            key={place.edge.index}
            d={linePath(place.points)}
            fill="none"
            stroke={colours.faintText}
            stroke-width={0.6 / scale}
          />
        ))}
        {placed.nodes.map((node) => (
          <rect
            key={node.index}
            x={node.x - NODE_WIDTH / 2}
            y={node.y - NODE_HEIGHT / 2}
            width={NODE_WIDTH}
            height={NODE_HEIGHT}
            fill={node.index === props.selected ? colours.accent : colours.faintText}
          />
        ))}
        <rect
          x={part.x}
          y={part.y}
          width={part.width}
          height={part.height}
          fill={colours.accent}
          fill-opacity="0.12"
          stroke={colours.accent}
          stroke-width={2 / scale}
        />
      </g>
    </svg>
  );
}
