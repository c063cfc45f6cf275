import { CopyButton } from "../../components/copy-button";
import { draftAddress, leaveDraft } from "../../draft";
import { texts } from "../../i18n";
import { draftOf } from "./draft";

/** The plan's `training`, to copy or to plan a schedule for. */
export function PostIt(props: {
  training: Record<string, unknown>;
  /** What the plan was asked for with; null where there is no service to ask again. */
  request: Record<string, unknown> | null;
}) {
  const t = texts().training.post;
  const draft = props.request && draftOf(props.request, props.training);
  return (
    <>
      <h3>{t.title}</h3>
      <p class="row">
        {draft && (
          <a href={draftAddress()} title={t.linkHelp} onClick={() => leaveDraft(draft)}>
            {t.link}
          </a>
        )}
        <CopyButton text={() => JSON.stringify(props.training, null, 2)} label={t.json} />
      </p>
      <details>
        <summary>{t.json}</summary>
        {/* biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls has to be reached by keys. */}
        <pre tabIndex={0}>{JSON.stringify(props.training, null, 2)}</pre>
      </details>
    </>
  );
}
