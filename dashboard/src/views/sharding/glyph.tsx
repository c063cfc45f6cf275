import type { ChartColours } from "../../palette";
import { type Split, type SplitKind, splitKind, splitText } from "./split";

const MOST_CELLS = 8;
const MOST_SHEETS = 3;
const SHEET_OFFSET = 3;
/** Smaller pictures have finer lines, or their blocks would run together. */
const FINE_BELOW = 24;

/** Which colour a kind of split has; letters beside it say the same. */
export function kindColour(kind: SplitKind, colours: ChartColours): string {
  const [blue, orange, green, pink, sky, red, olive] = colours.series;
  const byKind: Record<SplitKind, string | undefined> = {
    D: blue,
    R: orange,
    C: green,
    DR: red,
    DC: sky,
    RC: olive,
    DRC: pink,
    W: colours.faintText,
  };
  return byKind[kind] ?? colours.text;
}

/** A picture of a split, drawn in a space of `size` by `size` with its corner at x, y. */
export function SplitShape(props: {
  split: Split;
  x: number;
  y: number;
  size: number;
  colours: ChartColours;
}) {
  const { split, colours, size } = props;
  const colour = kindColour(splitKind(split), colours);
  const sheets = Math.min(split.row, MOST_SHEETS + 1);
  const face = size - (sheets - 1) * SHEET_OFFSET;
  const rows = Math.min(split.data, MOST_CELLS);
  const columns = Math.min(split.column, MOST_CELLS);
  const front = { x: props.x, y: props.y + (sheets - 1) * SHEET_OFFSET };
  const lines = [
    ...inner(rows).map((at) => `M${front.x},${front.y + at * face}h${face}`),
    ...inner(columns).map((at) => `M${front.x + at * face},${front.y}v${face}`),
  ];
  return (
    <g stroke={colour} stroke-width={size < FINE_BELOW ? 0.6 : 1}>
      {Array.from({ length: sheets }, (_, sheet) => sheets - 1 - sheet).map((depth) => (
        <rect
          key={depth}
          x={front.x + depth * SHEET_OFFSET}
          y={front.y - depth * SHEET_OFFSET}
          width={face}
          height={face}
          fill={colours.surface}
        />
      ))}
      <rect {...front} width={face} height={face} fill={colour} fill-opacity="0.22" />
      <path d={lines.join("")} fill="none" />
    </g>
  );
}

/** The picture with its text, for tables and lists. */
export function SplitBadge(props: {
  split: Split | null;
  strategy: string;
  colours: ChartColours;
}) {
  if (!props.split) {
    return <code>{props.strategy}</code>;
  }
  return (
    <span class="split-badge" title={props.strategy}>
      <svg width="20" height="20" viewBox="-1 -1 22 22" aria-hidden="true">
        <SplitShape split={props.split} x={0} y={0} size={20} colours={props.colours} />
      </svg>
      <span>{splitText(props.strategy)}</span>
      {props.split.isSequenceSplit && <span class="tag">SP</span>}
    </span>
  );
}

function inner(parts: number): number[] {
  return Array.from({ length: parts - 1 }, (_, index) => (index + 1) / parts);
}
