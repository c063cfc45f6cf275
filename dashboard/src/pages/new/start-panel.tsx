/** Starting from an example, a former job, or a file. */

import { useState } from "preact/hooks";
import { ask } from "../../api/client";
import { apiKey } from "../../api/key";
import type { JobPage, Kind } from "../../api/types";
import { Failure } from "../../components/states";
import { bytes, dateTime } from "../../format";
import { texts } from "../../i18n";
import { useLoad } from "../../use-load";
import { faultText } from "./json-panel";
import { type JsonObject, readJsonObject } from "./json-text";
import { before, bringBack, openBody, openText } from "./store";
import { openedAs } from "./upload";
import type { Notice } from "./use-opening";

interface Props {
  kind: Kind;
  notice: Notice | null;
  onNotice: (notice: Notice) => void;
  onJob: (id: string) => void;
}

/** The largest body that the service takes by default. */
const LARGEST_FILE_BYTES = 8 * 2 ** 20;
const JOBS_LISTED = 30;

export function StartPanel(props: Props) {
  const t = texts().form.start;
  const [isOver, setOver] = useState(false);

  async function open(file: File | undefined): Promise<void> {
    if (!file) {
      return;
    }
    if (file.size > LARGEST_FILE_BYTES) {
      props.onNotice({ state: "wrong", text: t.tooLarge(bytes(file.size)) });
      return;
    }
    const text = await file.text();
    const reading = readJsonObject(text);
    if ("fault" in reading) {
      openText(props.kind, text);
      props.onNotice({ state: "wrong", text: `${file.name}: ${faultText(reading.fault)}` });
      return;
    }
    const { kind, body, isKnown } = openedAs(reading.document, props.kind);
    openBody(kind, body);
    props.onNotice(
      isKnown
        ? { state: "opened", what: file.name }
        : { state: "wrong", text: t.notKnown(file.name, Object.keys(body).slice(0, 5).join(", ")) },
    );
  }

  function drop(event: DragEvent): void {
    event.preventDefault();
    setOver(false);
    void open(event.dataTransfer?.files[0]);
  }

  return (
    <section
      class={`panel form-start ${isOver ? "form-start-over" : ""}`}
      aria-labelledby="start-title"
      onDragOver={(event) => {
        event.preventDefault();
        setOver(true);
      }}
      onDragLeave={() => setOver(false)}
      onDrop={drop}
    >
      <h2 id="start-title">{t.title}</h2>
      <div class="row">
        <Examples
          kind={props.kind}
          onOpened={(what) => props.onNotice({ state: "opened", what })}
        />
        <FormerJobs kind={props.kind} onJob={props.onJob} />
        <label class="form-file">
          <span>{t.file}</span>
          <input
            type="file"
            accept="application/json,.json"
            onChange={(event) => {
              void open(event.currentTarget.files?.[0]);
              event.currentTarget.value = "";
            }}
          />
        </label>
        <span class="field-help">{t.drop}</span>
      </div>
      <NoticeLine notice={props.notice} />
      {before.value && (
        <button type="button" class="quiet" onClick={bringBack}>
          {t.undo}
        </button>
      )}
    </section>
  );
}

function NoticeLine(props: { notice: Notice | null }) {
  const t = texts().form.start;
  const { notice } = props;
  return (
    <>
      <div role="status">
        {notice?.state === "opening" && <p class="field-help">{t.loadingJob}</p>}
        {notice?.state === "opened" && <p class="field-help">{t.opened(notice.what)}</p>}
      </div>
      {notice?.state === "wrong" && (
        <p class="error-text" role="alert">
          {notice.text}
        </p>
      )}
      {notice?.state === "failed" && <Failure error={notice.error} />}
    </>
  );
}

function Examples(props: { kind: Kind; onOpened: (what: string) => void }) {
  const t = texts().form.start;
  const loaded = useLoad(
    async (signal) => (await ask<JsonObject[]>(`examples?kind=${props.kind}`, { signal })).body,
    [props.kind, apiKey.value],
  );
  const examples = loaded.value ?? [];
  return (
    <Chooser
      title={t.example}
      options={examples.map((body, index) => [String(index), nameOf(body, index)])}
      hasFailed={loaded.error !== null}
      onChoose={(value) => {
        const body = examples[Number(value)];
        if (body) {
          openBody(props.kind, body);
          props.onOpened(nameOf(body, Number(value)));
        }
      }}
    />
  );
}

function FormerJobs(props: { kind: Kind; onJob: (id: string) => void }) {
  const t = texts().form.start;
  const loaded = useLoad(
    async (signal) =>
      (await ask<JobPage>(`jobs?kind=${props.kind}&limit=${JOBS_LISTED}`, { signal })).body.jobs,
    [props.kind, apiKey.value],
  );
  const jobs = loaded.value ?? [];
  return (
    <Chooser
      title={t.job}
      options={jobs.map((job) => [
        job.id,
        `${job.name ?? job.model ?? job.id} · ${dateTime(new Date(job.created_at))}`,
      ])}
      hasFailed={loaded.error !== null}
      onChoose={props.onJob}
    />
  );
}

function Chooser(props: {
  title: string;
  options: readonly (readonly [value: string, title: string])[];
  hasFailed: boolean;
  onChoose: (value: string) => void;
}) {
  const t = texts().form.start;
  return (
    <label class="form-chooser">
      <span>{props.title}</span>
      <select
        value=""
        onChange={(event) => {
          props.onChoose(event.currentTarget.value);
          event.currentTarget.value = "";
        }}
      >
        <option value="">{props.hasFailed ? t.listFailed : t.choose}</option>
        {props.options.map(([value, title]) => (
          <option key={value} value={value}>
            {title}
          </option>
        ))}
      </select>
    </label>
  );
}

function nameOf(body: JsonObject, index: number): string {
  return typeof body.name === "string" ? body.name : `#${index + 1}`;
}
