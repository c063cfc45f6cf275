import { useState } from "preact/hooks";
import { ask } from "../../api/client";
import { jobPath } from "../../api/source";
import type { JobView } from "../../api/types";
import { Modal } from "../../components/modal";
import { Failure } from "../../components/states";
import { texts } from "../../i18n";
import { shownName } from "./names";

interface Props {
  job: JobView;
  onClose: () => void;
  onChange: (job: JobView) => void;
}

export function CancelDialog(props: Props) {
  const t = texts().jobs.cancelDialog;
  const { job } = props;
  const [isSending, setSending] = useState(false);
  const [error, setError] = useState<unknown>(null);

  async function cancel(): Promise<void> {
    setSending(true);
    setError(null);
    try {
      const { body } = await ask<JobView>(jobPath(job.id), { method: "DELETE" });
      props.onClose();
      props.onChange(body);
    } catch (problem) {
      setError(problem);
      setSending(false);
    }
  }

  return (
    <Modal title={t.title} onClose={props.onClose}>
      <p class="long-name">
        <strong>{shownName(job)}</strong>
      </p>
      <p>{job.state === "queued" ? t.queued : t.running}</p>
      {error !== null && <Failure error={error} />}
      <div class="row dialog-buttons">
        <button type="button" onClick={props.onClose}>
          {t.keep}
        </button>
        <button type="button" class="danger" disabled={isSending} onClick={cancel}>
          {t.confirm}
        </button>
      </div>
    </Modal>
  );
}
