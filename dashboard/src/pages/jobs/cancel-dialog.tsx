import { ask } from "../../api/client";
import { jobPath } from "../../api/source";
import type { JobView } from "../../api/types";
import { ConfirmDialog } from "../../components/confirm-dialog";
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
  return (
    <ConfirmDialog
      texts={t}
      name={shownName(job)}
      onClose={props.onClose}
      onConfirm={async () => {
        props.onChange((await ask<JobView>(jobPath(job.id), { method: "DELETE" })).body);
      }}
    >
      {job.state === "queued" ? t.queued : t.running}
    </ConfirmDialog>
  );
}
