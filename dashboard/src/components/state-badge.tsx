import type { JobState } from "../api/types";
import { texts } from "../i18n";

const MARKS: Record<JobState, string> = {
  queued: "◷",
  running: "▶",
  succeeded: "✓",
  infeasible: "⊘",
  failed: "✕",
  cancelled: "■",
};

/** A job's state: a mark and a word, so that colour is never all that tells. */
export function StateBadge(props: { state: JobState }) {
  return (
    <span class={`badge badge-${props.state}`}>
      <span aria-hidden="true">{MARKS[props.state]}</span> {texts().common.states[props.state]}
    </span>
  );
}
