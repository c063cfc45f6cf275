import { type Column, measured, SortableTable } from "../../components/sortable-table";
import { number } from "../../format";
import { texts } from "../../i18n";
import { signed } from "./difference";
import type { DeviceMoves, Move, PlanMoves, Token } from "./moves";

const MOST_LISTED = 40;

/** Which operations moved, by device and one by one, and what is offloaded in one plan only. */
export function MovesPanel(props: { moves: PlanMoves }) {
  const t = texts().compare.moves;
  const { moves } = props;
  return (
    <section class="panel">
      <h2>{t.title}</h2>
      <h3>{t.byDevice}</h3>
      <SortableTable
        caption={t.byDevice}
        columns={deviceColumns()}
        rows={moves.devices}
        rowKey={(row) => String(row.device)}
      />
      <h3>{t.largest}</h3>
      {moves.largest.length === 0 ? (
        <p class="faint">{t.none}</p>
      ) : (
        <SortableTable
          caption={t.largest}
          columns={moveColumns()}
          rows={moves.largest}
          rowKey={(row) => `${row.op} ${row.stage} ${row.micro_batch}`}
        />
      )}
      <Swaps moves={moves} />
      <Offloads title={t.offloadsAdded(moves.offloadsAdded.length)} tokens={moves.offloadsAdded} />
      <Offloads
        title={t.offloadsRemoved(moves.offloadsRemoved.length)}
        tokens={moves.offloadsRemoved}
      />
    </section>
  );
}

function deviceColumns(): Column<DeviceMoves>[] {
  const t = texts().compare.moves;
  const count = (
    id: string,
    title: string,
    value: (row: DeviceMoves) => number,
  ): Column<DeviceMoves> => ({
    id,
    title,
    value,
    numeric: true,
    cell: (row) => number(value(row)),
  });
  const time = (
    id: string,
    title: string,
    value: (row: DeviceMoves) => number,
  ): Column<DeviceMoves> => ({
    ...measured("time", id, title, value),
    cell: (row, write) => (value(row) === 0 ? "–" : signed(value(row), write)),
  });
  return [
    { id: "device", title: t.device, cell: (row) => row.device, value: (row) => row.device },
    count("operations", t.operations, (row) => row.operations),
    count("earlier", t.earlier, (row) => row.earlier),
    count("later", t.later, (row) => row.later),
    count("same", t.same, (row) => row.same),
    time("mostEarlier", t.mostEarlier, (row) => row.mostEarlierNs),
    time("mostLater", t.mostLater, (row) => row.mostLaterNs),
    count("swaps", t.swaps, (row) => row.swaps),
  ];
}

function moveColumns(): Column<Move>[] {
  const t = texts().compare.moves;
  return [
    { id: "operation", title: t.operation, cell: tokenText },
    { id: "device", title: t.device, cell: (row) => row.device, value: (row) => row.device },
    measured("time", "from", t.startA, (row) => row.fromNs, "time"),
    measured("time", "to", t.startB, (row) => row.toNs, "time"),
    {
      ...measured<Move>("time", "by", t.by, (row) => row.byNs, "time"),
      cell: (row, write) => signed(row.byNs, write),
    },
  ];
}

function Swaps(props: { moves: PlanMoves }) {
  const t = texts().compare.moves;
  const { swaps } = props.moves;
  if (swaps.length === 0) {
    return null;
  }
  return (
    <details>
      <summary>{t.swapTitle(swaps.length)}</summary>
      <ul>
        {swaps.slice(0, MOST_LISTED).map((swap) => (
          <li key={`${swap.device} ${tokenText(swap.first)} ${tokenText(swap.second)}`}>
            {t.swap(swap.device, shortText(swap.first), shortText(swap.second))}
          </li>
        ))}
        {swaps.length > MOST_LISTED && <li>{t.andMore(swaps.length - MOST_LISTED)}</li>}
      </ul>
    </details>
  );
}

/** By stage, since many micro-batches of one stage are usual. */
function Offloads(props: { title: string; tokens: readonly Token[] }) {
  const t = texts().compare.moves;
  const stages = [...new Set(props.tokens.map((token) => token.stage))].sort((a, b) => a - b);
  if (stages.length === 0) {
    return null;
  }
  return (
    <details>
      <summary>{props.title}</summary>
      <ul>
        {stages.map((stage) => (
          <li key={stage}>{t.place(stage, microBatches(props.tokens, stage))}</li>
        ))}
      </ul>
    </details>
  );
}

function microBatches(tokens: readonly Token[], stage: number): string {
  return tokens
    .filter((token) => token.stage === stage)
    .map((token) => token.micro_batch)
    .sort((a, b) => a - b)
    .join(", ");
}

function tokenText(token: Token): string {
  return texts().compare.moves.token(token.op, token.stage, token.micro_batch);
}

/** As the charts write it: F of stage 2 and micro-batch 5 is F2.5. */
function shortText(token: Token): string {
  return `${token.op}${token.stage}.${token.micro_batch}`;
}
