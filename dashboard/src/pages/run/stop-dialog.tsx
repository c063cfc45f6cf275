import { useState } from "preact/hooks";
import { ask } from "../../api/client";
import type { RunItem } from "../../api/types";
import { Modal } from "../../components/modal";
import { Failure } from "../../components/states";
import { texts } from "../../i18n";
import { runName } from "../runs/words";
import { runPath } from "./store";

interface Props {
  run: RunItem;
  onClose: () => void;
  onStopped: () => void;
}

export function StopDialog(props: Props) {
  const t = texts().runs.run.stopDialog;
  const [isSending, setSending] = useState(false);
  const [error, setError] = useState<unknown>(null);

  async function stop(): Promise<void> {
    setSending(true);
    setError(null);
    try {
      await ask<RunItem>(runPath(props.run.id), { method: "DELETE" });
      props.onClose();
      props.onStopped();
    } catch (problem) {
      setError(problem);
      setSending(false);
    }
  }

  return (
    <Modal title={t.title} onClose={props.onClose}>
      <p class="long-name">
        <strong>{runName(props.run)}</strong>
      </p>
      <p>{t.explanation}</p>
      {error !== null && <Failure error={error} />}
      <div class="row dialog-buttons">
        <button type="button" onClick={props.onClose}>
          {t.keep}
        </button>
        <button type="button" class="danger" disabled={isSending} onClick={stop}>
          {t.confirm}
        </button>
      </div>
    </Modal>
  );
}
