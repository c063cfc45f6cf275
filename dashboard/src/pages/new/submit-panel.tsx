/** Sending the request, and what comes of it. */

import type { ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { ApiError } from "../../api/client";
import type { Kind } from "../../api/types";
import { Failure } from "../../components/states";
import { texts } from "../../i18n";
import { href } from "../../route";
import { Attempts, isInDoubt, type Submission } from "./attempt";
import { Problems } from "./check-panel";
import type { Field } from "./field";
import { placed } from "./problem-paths";

interface Props {
  kind: Kind;
  body: string;
  fields: readonly Field[];
  fresh: boolean;
  onFresh: (fresh: boolean) => void;
  /** Why it cannot be sent as it is; null where nothing is known to be wrong. */
  hindrance: string | null;
  isNotKept: boolean;
  /** What the service says to it so far. */
  children: ComponentChildren;
}

/** Long enough to read that the answer was in the store. */
const SHOWN_MS = 1200;

export function SubmitPanel(props: Props) {
  const t = texts().form.submit;
  const attempts = useRef(new Attempts());
  const [isSending, setSending] = useState(false);
  const [error, setError] = useState<unknown>(null);
  const [made, setMade] = useState<Submission | null>(null);

  useEffect(() => setError(null), [props.kind, props.body, props.fresh]);
  useEffect(() => {
    if (made) {
      const timer = setTimeout(() => openJob(made.id), made.cache === "miss" ? 0 : SHOWN_MS);
      return () => clearTimeout(timer);
    }
  }, [made]);

  async function submit(): Promise<void> {
    setSending(true);
    setError(null);
    try {
      const submission = await attempts.current.post(props.kind, props.body, props.fresh);
      setMade(submission);
      // It was asked for this once.
      props.onFresh(false);
    } catch (failure) {
      setError(failure);
    } finally {
      setSending(false);
    }
  }

  return (
    <section class="panel form-submit" aria-labelledby="submit-title">
      <h2 class="visually-hidden" id="submit-title">
        {t.title}
      </h2>
      <div class="row">
        <button
          type="button"
          class="primary"
          disabled={props.hindrance !== null || isSending || made !== null}
          aria-describedby={props.hindrance === null ? undefined : "submit-blocked"}
          onClick={submit}
        >
          {isSending ? t.sending : t.action[props.kind]}
        </button>
        {props.hindrance !== null && (
          <span class="error-text" id="submit-blocked">
            {props.hindrance}
          </span>
        )}
        <label class="form-check">
          <input
            type="checkbox"
            checked={props.fresh}
            aria-describedby="fresh-help"
            onChange={(event) => props.onFresh(event.currentTarget.checked)}
          />
          {t.fresh}
        </label>
      </div>
      <div class="form-verdict" role="status">
        {props.children}
      </div>
      <p class="field-help" id="fresh-help">
        {t.freshHelp}
      </p>
      {props.isNotKept && <p class="field-help">{t.notKept}</p>}
      <div role="status">{made && <Made submission={made} />}</div>
      {error !== null && <SubmitFailure error={error} fields={props.fields} />}
    </section>
  );
}

function Made(props: { submission: Submission }) {
  const t = texts().form.submit;
  const { cache, id } = props.submission;
  return (
    <p class="verdict verdict-good">
      ✓ {cache === "hit" ? t.hit : cache === "joined" ? t.joined : t.made}{" "}
      <a href={href(["jobs", id])}>{t.open}</a>
    </p>
  );
}

function SubmitFailure(props: { error: unknown; fields: readonly Field[] }) {
  const t = texts().form.submit;
  const { error } = props;
  if (error instanceof ApiError && error.errors.length > 0) {
    return (
      <div role="alert">
        <p class="error-text">{error.title}</p>
        <Problems problems={placed(error.errors, props.fields)} />
      </div>
    );
  }
  const waitS = error instanceof ApiError ? error.retryAfterS : null;
  return (
    <>
      <Failure error={error} />
      {waitS !== null && <p>{t.retryAfter(waitS)}</p>}
      {isInDoubt(error) && <p>{t.unknown}</p>}
    </>
  );
}

function openJob(id: string): void {
  location.hash = href(["jobs", id]);
}
