import { useState } from "preact/hooks";
import { ApiError } from "../../api/client";
import { fetchRequest } from "../../api/source";
import type { JobView } from "../../api/types";
import { Modal } from "../../components/modal";
import { Failure, Loading } from "../../components/states";
import { texts } from "../../i18n";
import { href } from "../../route";
import { useLoad } from "../../use-load";
import { shownName } from "./names";
import { hasIterations, type JobRequest, postAgain, readSeconds, withTimeLimit } from "./rerun";

/** Asks for another time limit, solves the job's request with it and leads to the new job. */
export function RerunDialog(props: { job: JobView; onClose: () => void }) {
  const t = texts().jobs.rerunDialog;
  const { job } = props;
  const request = useLoad((signal) => fetchRequest<JobRequest>(job.id, signal), [job.id]);
  return (
    <Modal title={t.title} onClose={props.onClose}>
      <p class="long-name">
        <strong>{shownName(job)}</strong>
      </p>
      {request.value !== null ? (
        <RerunForm job={job} request={request.value} onClose={props.onClose} />
      ) : (
        <>
          {request.isLoading ? <Loading /> : <RequestProblem error={request.error} />}
          <CloseButton onClose={props.onClose} />
        </>
      )}
    </Modal>
  );
}

function RequestProblem(props: { error: unknown }) {
  const isNotKept = props.error instanceof ApiError && props.error.status === 404;
  return isNotKept ? (
    <p role="alert">{texts().jobs.rerunDialog.notKept}</p>
  ) : (
    <Failure error={props.error} />
  );
}

function RerunForm(props: { job: JobView; request: JobRequest; onClose: () => void }) {
  const t = texts().jobs.rerunDialog;
  const [entered, setEntered] = useState(String(props.job.time_limit_s));
  const [isSending, setSending] = useState(false);
  const [error, setError] = useState<unknown>(null);
  const seconds = readSeconds(entered);

  async function submit(event: Event): Promise<void> {
    event.preventDefault();
    if (seconds === null || isSending) {
      return;
    }
    setSending(true);
    setError(null);
    try {
      const id = await postAgain(props.job, withTimeLimit(props.request, seconds));
      props.onClose();
      location.hash = href(["jobs", id]);
    } catch (problem) {
      setError(problem);
      setSending(false);
    }
  }

  return (
    <form onSubmit={submit} noValidate>
      <p>{t.explanation}</p>
      {hasIterations(props.request) && <p class="warn-text">{t.iterations}</p>}
      <label>
        {t.limit}
        <input
          inputMode="decimal"
          autocomplete="off"
          value={entered}
          aria-invalid={seconds === null}
          aria-describedby="rerun-problem"
          onInput={(event) => setEntered(event.currentTarget.value)}
        />
      </label>
      <p id="rerun-problem" class="error-text" aria-live="polite">
        {seconds === null ? t.invalid : ""}
      </p>
      {error !== null && <Failure error={error} />}
      <div class="row dialog-buttons">
        <CloseButton onClose={props.onClose} />
        <button type="submit" class="primary" disabled={seconds === null || isSending}>
          {isSending ? t.isSending : t.submit}
        </button>
      </div>
    </form>
  );
}

function CloseButton(props: { onClose: () => void }) {
  return (
    <button type="button" onClick={props.onClose}>
      {texts().common.close}
    </button>
  );
}
