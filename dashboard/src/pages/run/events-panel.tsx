import { useMemo, useState } from "preact/hooks";
import type { RunEvent, RunView } from "../../api/types";
import { DateTime } from "../../components/date-time";
import { type Column, SortableTable } from "../../components/sortable-table";
import { number } from "../../format";
import { type Messages, texts } from "../../i18n";
import { runWord } from "../runs/words";

const SHOWN_AT_FIRST = 10;

/** What happened to the run, newest first. */
export function EventsPanel(props: { run: RunView }) {
  const messages = texts();
  const t = messages.runs.events;
  const { events } = props.run;
  const columns = useMemo(() => columnsOf(messages), [messages]);
  const [isWhole, setWhole] = useState(false);
  const shown = isWhole ? events : events.slice(0, SHOWN_AT_FIRST);
  const isCut = (events.at(-1)?.seq ?? 0) > 0;
  return (
    <section class="panel">
      <h2>{t.title}</h2>
      <SortableTable
        caption={t.caption}
        columns={columns}
        rows={shown}
        rowKey={(event) => String(event.seq)}
      />
      {shown.length < events.length && (
        <button type="button" onClick={() => setWhole(true)}>
          {t.all(events.length)}
        </button>
      )}
      {isWhole && isCut && <p class="faint">{t.newest(events.length)}</p>}
    </section>
  );
}

function columnsOf({ runs }: Messages): Column<RunEvent>[] {
  const t = runs.events;
  return [
    { id: "when", title: t.when, cell: (event) => <DateTime at={event.at} /> },
    {
      id: "iteration",
      title: t.iteration,
      numeric: true,
      cell: (event) => (event.iteration === null ? "–" : number(event.iteration)),
    },
    {
      id: "kind",
      title: t.kind,
      value: (event) => runWord("event", event.kind),
      cell: (event) => runWord("event", event.kind),
    },
    { id: "detail", title: t.detail, cell: (event) => <span lang="en">{event.detail}</span> },
  ];
}
