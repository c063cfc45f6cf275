/** The files of a plan: its result, what was asked for, and the service's exports. */

import { useState } from "preact/hooks";
import { send } from "../api/client";
import type { PlanSource } from "../api/source";
import type { ExportLink } from "../api/types";
import { Failure, Loading } from "../components/states";
import { saveBlob, saveText } from "../download";
import { texts } from "../i18n";
import { useLoad } from "../use-load";
import { apiPath, canBeHad, exportName, fileStem } from "./downloads-files";

interface Download {
  key: string;
  title: string;
  save: () => Promise<void> | void;
}

/** A report has no service to fetch from: it offers the result that it carries. */
export function Downloads(props: { source: PlanSource }) {
  const t = texts().pipeline.downloads;
  const { source } = props;
  const { value, error, isLoading, reload } = useLoad((signal) => source.exports(signal), [source]);
  return (
    <section class="panel">
      <h2>{t.title}</h2>
      {isLoading && value === null && <Loading what={t.loading} />}
      {error !== null && <Failure error={error} onRetry={reload} />}
      {value !== null && <Buttons downloads={downloadsOf(source, value)} />}
      {value !== null && <Hindered exports={value} />}
      {source.isReport && <p class="faint">{t.reduced}</p>}
    </section>
  );
}

/** What cannot be had, and why. */
function Hindered(props: { exports: readonly ExportLink[] }) {
  const t = texts().pipeline.downloads;
  const hindered = props.exports.filter((entry) => !canBeHad(entry));
  if (hindered.length === 0) {
    return null;
  }
  return (
    <details>
      <summary>{t.hindered(hindered.length)}</summary>
      <dl lang="en">
        {hindered.map((entry) => (
          <div key={entry.format}>
            <dt>{entry.title}</dt>
            <dd>{entry.hindrance}</dd>
          </div>
        ))}
      </dl>
    </details>
  );
}

function Buttons(props: { downloads: readonly Download[] }) {
  const t = texts().pipeline.downloads;
  const [busy, setBusy] = useState<string | null>(null);
  const [failed, setFailed] = useState<{ title: string; error: unknown } | null>(null);

  async function run(download: Download): Promise<void> {
    setBusy(download.key);
    setFailed(null);
    try {
      await download.save();
    } catch (error) {
      setFailed({ title: download.title, error });
    } finally {
      setBusy(null);
    }
  }

  return (
    <>
      <div class="downloads">
        {props.downloads.map((download) => (
          <button
            key={download.key}
            type="button"
            disabled={busy !== null}
            onClick={() => run(download)}
          >
            {busy === download.key ? t.busy : download.title}
          </button>
        ))}
      </div>
      {failed && (
        <p class="error-text" role="alert">
          {t.failed(failed.title, messageOf(failed.error))}
        </p>
      )}
    </>
  );
}

function downloadsOf(source: PlanSource, exports: readonly ExportLink[]): Download[] {
  const t = texts().pipeline.downloads;
  const stem = fileStem(source.job);
  if (source.isReport) {
    const text = JSON.stringify(source.result);
    const save = () => saveText(text, "application/json", `${stem}-result.json`);
    return [{ key: "result", title: t.result, save }];
  }
  const id = encodeURIComponent(source.job.id);
  return [
    {
      key: "result",
      title: t.result,
      save: () => fetchAndSave(`jobs/${id}/result`, `${stem}-result.json`),
    },
    ...exports.filter(canBeHad).map((entry) => ({
      key: `export ${entry.format}`,
      title: entry.title,
      save: () => fetchAndSave(apiPath(entry.href), exportName(entry, stem)),
    })),
    {
      key: "request",
      title: t.request,
      save: () => fetchAndSave(`jobs/${id}/request`, `${stem}-request.json`),
    },
  ];
}

/** Fetched with the key, which a link could not send. */
async function fetchAndSave(path: string, fileName: string): Promise<void> {
  const response = await send(path);
  saveBlob(await response.blob(), fileName);
}

function messageOf(error: unknown): string {
  return error instanceof Error && error.message ? error.message : texts().common.unreachable;
}
