/** The graph of the operators, drawn; the list beside it is the way for keys and screen readers. */

import { useEffect, useMemo, useRef } from "preact/hooks";
import { writerOf } from "../../format";
import { texts } from "../../i18n";
import { type ChartColours, chartColours, isDark } from "../../palette";
import { kindColour, SplitShape } from "./glyph";
import {
  type EdgePlace,
  type GraphLayout,
  layoutGraph,
  linePath,
  lineWidth,
  NODE_HEIGHT,
  NODE_WIDTH,
  type NodePlace,
  type Point,
} from "./layout";
import type { EdgeRow, OperatorRow } from "./model";
import { Overview } from "./overview";
import { splitKind, splitText } from "./split";
import { usePanZoom } from "./use-pan-zoom";

const GLYPH_SIZE = 30;
const NAME_LENGTH = 16;
const REVEALED_ROOM = 130;

interface Props {
  operators: readonly OperatorRow[];
  edges: readonly EdgeRow[];
  selected: number | null;
  onSelect: (index: number) => void;
}

export function OperatorGraph(props: Props) {
  const t = texts().sharding.graph;
  const dark = isDark.value;
  const colours = useMemo(() => chartColours(dark), [dark]);
  const placed = useMemo(
    () => layoutGraph(props.operators.length, props.edges),
    [props.operators, props.edges],
  );
  const frame = useRef<HTMLDivElement>(null);
  const heaviest = useMemo(() => heaviestPlace(placed, props.operators), [placed, props.operators]);
  const { view, screen, zoom, fit, centre, reveal, handlers } = usePanZoom(frame, placed, heaviest);
  const selectedPlace = props.selected === null ? undefined : placed.nodes[props.selected];
  useEffect(() => {
    if (selectedPlace) {
      reveal(selectedPlace, REVEALED_ROOM);
    }
  }, [selectedPlace, reveal]);
  // Moving the drawing must not make its hundreds of operators anew.
  const content = useMemo(
    () => (
      <>
        <Lines placed={placed} selected={props.selected} colours={colours} />
        {placed.nodes.map((node) => {
          const operator = props.operators[node.index];
          return (
            operator && (
              <OperatorNode
                key={node.index}
                place={node}
                operator={operator}
                isSelected={node.index === props.selected}
                colours={colours}
                onSelect={props.onSelect}
              />
            )
          );
        })}
      </>
    ),
    [placed, props.operators, props.selected, props.onSelect, colours],
  );
  return (
    <div class="shard-graph">
      <div class="row shard-graph-tools">
        <button type="button" onClick={() => zoom(1.25)} aria-label={t.zoomIn}>
          +
        </button>
        <button type="button" onClick={() => zoom(0.8)} aria-label={t.zoomOut}>
          −
        </button>
        <button type="button" onClick={fit}>
          {t.fit}
        </button>
      </div>
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: the drawing is moved and zoomed by keys. */}
      <section ref={frame} class="shard-canvas" tabIndex={0} aria-label={t.view} {...handlers}>
        <svg
          width="100%"
          height="100%"
          role="img"
          aria-label={t.summary(props.operators.length, props.edges.length)}
        >
          <defs>
            <marker
              id="shard-arrow"
              viewBox="0 0 8 8"
              refX="7"
              refY="4"
              markerWidth="9"
              markerHeight="9"
              markerUnits="userSpaceOnUse"
              orient="auto"
            >
              <path d="M0,0 L8,4 L0,8 z" fill={colours.faintText} />
            </marker>
          </defs>
          <g transform={`translate(${view.x} ${view.y}) scale(${view.scale})`}>{content}</g>
        </svg>
        <Overview
          placed={placed}
          view={view}
          screen={screen}
          selected={props.selected}
          colours={colours}
          onCentre={centre}
        />
      </section>
      <p class="faint">{t.help}</p>
    </div>
  );
}

/** Where the operator is that keeps most: the drawing opens there if all of it is too small. */
function heaviestPlace(placed: GraphLayout, operators: readonly OperatorRow[]): Point {
  const heaviest = operators.reduce<OperatorRow | undefined>(
    (most, one) => (one.memoryBytes > (most?.memoryBytes ?? -1) ? one : most),
    undefined,
  );
  return placed.nodes[heaviest?.index ?? 0] ?? { x: 0, y: 0 };
}

function Lines(props: { placed: GraphLayout; selected: number | null; colours: ChartColours }) {
  const most = Math.max(0, ...props.placed.edges.map((place) => place.edge.bytes));
  const write = writerOf("bytes", [most]);
  return (
    <g>
      {props.placed.edges.map((place) => (
        <Line key={place.edge.index} {...props} place={place} most={most} write={write} />
      ))}
    </g>
  );
}

function Line(props: {
  place: EdgePlace;
  most: number;
  write: (bytes: number) => string;
  selected: number | null;
  colours: ChartColours;
}) {
  const { place, colours } = props;
  const { edge } = place;
  const isOfSelected = edge.from === props.selected || edge.to === props.selected;
  const colour = isOfSelected ? colours.accent : edge.bytes > 0 ? colours.limit : colours.faintText;
  return (
    <g class="shard-edge">
      <path
        d={linePath(place.points)}
        fill="none"
        stroke={colour}
        stroke-width={lineWidth(edge.bytes, props.most)}
        stroke-opacity={edge.bytes > 0 || isOfSelected ? 0.8 : 0.6}
        stroke-dasharray={edge.isToNextLayer ? "6 4" : undefined}
        marker-end="url(#shard-arrow)"
      />
      {edge.bytes > 0 && (
        <text
          x={place.label.x}
          y={place.label.y + 4}
          text-anchor="middle"
          fill={colours.text}
          stroke={colours.surface}
        >
          {props.write(edge.bytes)}
        </text>
      )}
      {edge.tensors.length > 0 && <title>{edge.tensors.join(", ")}</title>}
    </g>
  );
}

function OperatorNode(props: {
  place: NodePlace;
  operator: OperatorRow;
  isSelected: boolean;
  colours: ChartColours;
  onSelect: (index: number) => void;
}) {
  const { place, operator, colours, isSelected } = props;
  const { split } = operator;
  const colour = split ? kindColour(splitKind(split), colours) : colours.faintText;
  const left = place.x - NODE_WIDTH / 2;
  const top = place.y - NODE_HEIGHT / 2;
  return (
    // biome-ignore lint/a11y/noStaticElementInteractions: keys choose an operator in the list.
    <g class="shard-node" onClick={() => props.onSelect(operator.index)}>
      <title>{`${operator.name} ${operator.strategy}`}</title>
      <rect
        x={left}
        y={top}
        width={NODE_WIDTH}
        height={NODE_HEIGHT}
        rx="5"
        fill={colours.surface}
        stroke={isSelected ? colours.accent : colour}
        stroke-width={isSelected ? 4 : 1.5}
      />
      {split && (
        <SplitShape split={split} x={left + 9} y={top + 8} size={GLYPH_SIZE} colours={colours} />
      )}
      <text x={left + 50} y={top + 19} fill={colours.text} class="shard-node-name">
        {shortened(operator.name)}
      </text>
      <text x={left + 50} y={top + 37} fill={colours.faintText}>
        {splitText(operator.strategy)}
        {split?.isSequenceSplit ? " SP" : ""}
      </text>
      {operator.layers > 1 && (
        <text x={left + NODE_WIDTH - 8} y={top + 37} text-anchor="end" fill={colours.faintText}>
          {texts().sharding.graph.layers(operator.layers)}
        </text>
      )}
    </g>
  );
}

function shortened(name: string): string {
  return name.length > NAME_LENGTH ? `${name.slice(0, NAME_LENGTH - 1)}…` : name;
}
