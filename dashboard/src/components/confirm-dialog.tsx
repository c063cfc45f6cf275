import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import { Modal } from "./modal";
import { Failure } from "./states";

interface Props {
  texts: { title: string; keep: string; confirm: string };
  /** What it is about. */
  name: string;
  /** What will happen. */
  children: ComponentChildren;
  onClose: () => void;
  /** Does it. The dialog closes itself, and stays with the error where there is one. */
  onConfirm: () => Promise<void>;
}

/** Asks before something is done that cannot be undone. */
export function ConfirmDialog(props: Props) {
  const t = props.texts;
  const [isSending, setSending] = useState(false);
  const [error, setError] = useState<unknown>(null);

  async function confirm(): Promise<void> {
    setSending(true);
    setError(null);
    try {
      await props.onConfirm();
      props.onClose();
    } catch (problem) {
      setError(problem);
      setSending(false);
    }
  }

  return (
    <Modal title={t.title} onClose={props.onClose}>
      <p class="long-name">
        <strong>{props.name}</strong>
      </p>
      <p>{props.children}</p>
      {error !== null && <Failure error={error} />}
      <div class="row dialog-buttons">
        <button type="button" onClick={props.onClose}>
          {t.keep}
        </button>
        <button type="button" class="danger" disabled={isSending} onClick={confirm}>
          {t.confirm}
        </button>
      </div>
    </Modal>
  );
}
