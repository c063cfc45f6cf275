import type { ApiError } from "../../api/client";
import { FieldProblems } from "../../components/states";
import { texts } from "../../i18n";
import { type LogTail, linesOf } from "../../live/log-tail";

const LINES_SHOWN = 12;

/** A job that ended without a plan or a proof, as its problem document says. */
export function Failed(props: { error: ApiError; log: LogTail }) {
  const t = texts().job.failed;
  const { error } = props;
  const lines = linesOf(props.log).slice(-LINES_SHOWN);
  const advice = t.advice[error.code] ?? [];
  return (
    <section class="panel panel-bad">
      <h2>{t.title}</h2>
      <p class="state-title">{error.title}</p>
      <p>{error.message}</p>
      <p class="faint">
        {t.code}: <code>{error.code}</code>
      </p>
      {error.errors.length > 0 && <FieldProblems error={error} />}
      {advice.length > 0 && (
        <>
          <h3>{t.remedies}</h3>
          <ul>
            {advice.map((text) => (
              <li key={text}>{text}</li>
            ))}
          </ul>
        </>
      )}
      {lines.length > 0 && (
        <>
          <h3>{t.lastLines}</h3>
          <pre>{lines.join("\n")}</pre>
        </>
      )}
    </section>
  );
}
