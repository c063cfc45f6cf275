import { texts } from "../i18n";
import type { Follower } from "../live/follower";
import { Stale } from "./states";

/** How news arrive, in a word; nothing where none will. */
export function LiveMark(props: { follower: Follower }) {
  const t = texts().jobs.live;
  const mode = props.follower.mode.value;
  if (mode === "over" || mode === "failed") {
    return null;
  }
  return (
    <span class={`live-mark live-${mode}`} role="status" title={t.explanations[mode]}>
      <span aria-hidden="true" class="live-dot" /> {t[mode]}
    </span>
  );
}

/** Says that the service was not heard of for long. */
export function StaleBanner(props: { follower: Follower }) {
  const seconds = props.follower.staleS.value;
  return seconds === null ? null : <Stale seconds={seconds} />;
}
