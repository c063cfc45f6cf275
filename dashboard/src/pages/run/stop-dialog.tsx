import { ask } from "../../api/client";
import { runPath } from "../../api/source";
import type { RunItem } from "../../api/types";
import { ConfirmDialog } from "../../components/confirm-dialog";
import { texts } from "../../i18n";
import { runName } from "../runs/words";

interface Props {
  run: RunItem;
  onClose: () => void;
  onStopped: () => void;
}

export function StopDialog(props: Props) {
  const t = texts().runs.run.stopDialog;
  const { run } = props;
  return (
    <ConfirmDialog
      texts={t}
      name={runName(run)}
      onClose={props.onClose}
      onConfirm={async () => {
        await ask<RunItem>(runPath(run.id), { method: "DELETE" });
        props.onStopped();
      }}
    >
      {t.explanation}
    </ConfirmDialog>
  );
}
