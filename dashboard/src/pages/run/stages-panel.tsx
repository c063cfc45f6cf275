import { useMemo, useState } from "preact/hooks";
import type { RunView } from "../../api/types";
import { SortableTable } from "../../components/sortable-table";
import { Empty } from "../../components/states";
import { texts } from "../../i18n";
import { runWord } from "../runs/words";
import { computationColumns, quantityColumns } from "./stage-columns";
import { computationRow, quantitiesOf, quantityRows } from "./stage-rows";

const OVERVIEW = "";

/** What is measured of each stage, and whether it has moved away from what was planned with. */
export function StagesPanel(props: { run: RunView }) {
  const t = texts().runs.stages;
  const { stages, settings } = props.run;
  const [chosen, setChosen] = useState(OVERVIEW);
  const quantities = quantitiesOf(stages);
  const quantity = quantities.includes(chosen) ? chosen : OVERVIEW;
  return (
    <section class="panel">
      <div class="row">
        <h2>{t.title}</h2>
        {stages.length > 0 && (
          <label>
            {t.quantity}{" "}
            <select value={quantity} onChange={(event) => setChosen(event.currentTarget.value)}>
              <option value={OVERVIEW}>{t.overview}</option>
              {quantities.map((name) => (
                <option key={name} value={name}>
                  {runWord("quantity", name)}
                </option>
              ))}
            </select>
          </label>
        )}
      </div>
      {stages.length === 0 ? (
        <Empty title={t.none}>
          <p class="faint">{t.noneHint(settings.warm_up)}</p>
        </Empty>
      ) : (
        <>
          <p class="faint">{t.explanation}</p>
          {quantity === OVERVIEW ? (
            <Computation run={props.run} />
          ) : (
            <Quantity key={quantity} run={props.run} quantity={quantity} />
          )}
        </>
      )}
    </section>
  );
}

function Computation(props: { run: RunView }) {
  const messages = texts();
  const { stages } = props.run;
  const columns = useMemo(() => computationColumns(messages), [messages]);
  const rows = useMemo(() => stages.map(computationRow), [stages]);
  return (
    <SortableTable
      caption={messages.runs.stages.caption}
      columns={columns}
      rows={rows}
      rowKey={(row) => String(row.stage)}
    />
  );
}

function Quantity(props: { run: RunView; quantity: string }) {
  const messages = texts();
  const { run, quantity } = props;
  const columns = useMemo(() => quantityColumns(messages, quantity), [messages, quantity]);
  const rows = useMemo(() => quantityRows(run.stages, quantity), [run.stages, quantity]);
  return (
    <SortableTable
      caption={`${messages.runs.stages.caption}: ${runWord("quantity", quantity)}`}
      columns={columns}
      rows={rows}
      rowKey={(row) => String(row.stage)}
    />
  );
}
