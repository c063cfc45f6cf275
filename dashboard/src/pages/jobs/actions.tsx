/** What can be done with a job: in its row of the list, and on its page. */

import { useState } from "preact/hooks";
import type { JobView } from "../../api/types";
import { texts } from "../../i18n";
import { isOver } from "../../live/objective";
import { href } from "../../route";
import { CancelDialog } from "./cancel-dialog";
import { shownName } from "./names";
import { RerunDialog } from "./rerun-dialog";

interface Props {
  job: JobView;
  /** Told what the service answered about the job. */
  onChange: (job: JobView) => void;
  isCompact?: boolean;
}

export function JobActions(props: Props) {
  const t = texts().jobs;
  const { job } = props;
  const [asked, setAsked] = useState<"cancel" | "rerun" | null>(null);
  const look = props.isCompact ? "quiet" : "";
  const name = shownName(job);
  return (
    <div class="job-actions">
      {!isOver(job) && !job.cancel_requested && (
        <button
          type="button"
          class={`${look} danger`}
          aria-label={t.cancelNamed(name)}
          onClick={() => setAsked("cancel")}
        >
          {t.cancel}
        </button>
      )}
      <button
        type="button"
        class={look}
        aria-label={t.rerunNamed(name)}
        onClick={() => setAsked("rerun")}
      >
        {t.rerun}
      </button>
      <a
        class={`button ${look}`}
        href={href(["new"], { from: job.id })}
        aria-label={t.editNamed(name)}
      >
        {props.isCompact ? t.editShort : t.edit}
      </a>
      {asked === "cancel" && (
        <CancelDialog job={job} onClose={() => setAsked(null)} onChange={props.onChange} />
      )}
      {asked === "rerun" && <RerunDialog job={job} onClose={() => setAsked(null)} />}
    </div>
  );
}
