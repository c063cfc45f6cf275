import { texts } from "../../i18n";
import { serviceName } from "../../i18n/service-text";
import { type Missing, missingParts } from "./missing";
import type { PipelineResult } from "./types";

/** Says what a plan lacks and why; nothing where it is complete. */
export function MissingNote(props: { result: PipelineResult }) {
  const t = texts().pipeline.missing;
  const missing = missingParts(props.result);
  if (missing === null) {
    return null;
  }
  return (
    <div class="banner banner-warning">
      <strong>{t.title}.</strong> {opening(missing)}
      <ul>
        {missing.parts.map((part) => (
          <li key={part}>{t.parts[part]}</li>
        ))}
      </ul>
      {missing.reason && (
        <p>
          {t.reason} <span lang="en">{missing.reason}</span>
        </p>
      )}
    </div>
  );
}

function opening(missing: Missing): string {
  const t = texts();
  return missing.isKept
    ? t.pipeline.missing.kept(
        missing.stoppedBy ? serviceName("stoppedBy", missing.stoppedBy) : t.common.unknown,
      )
    : t.pipeline.missing.notThere;
}
