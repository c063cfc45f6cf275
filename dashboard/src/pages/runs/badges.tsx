/** States of runs and versions: a mark and a word, so that colour is never all that tells. */

import type { RunItem, RunVersion } from "../../api/types";
import { runWord } from "./words";

const RUN_LOOKS: Record<RunItem["state"], [mark: string, look: string]> = {
  active: ["▶", "running"],
  stopped: ["■", "stopped"],
};

const VERSION_LOOKS: Record<RunVersion["state"], [mark: string, look: string]> = {
  published: ["◷", "published"],
  scheduled: ["⇥", "scheduled"],
  running: ["▶", "running"],
  confirmed: ["✓", "succeeded"],
  rolled_back: ["↩", "infeasible"],
  superseded: ["⊘", "superseded"],
};

export function RunBadge(props: { state: RunItem["state"] }) {
  const [mark, look] = RUN_LOOKS[props.state];
  return <Badge mark={mark} look={look} word={runWord("runState", props.state)} />;
}

export function VersionBadge(props: { state: RunVersion["state"] }) {
  const [mark, look] = VERSION_LOOKS[props.state];
  return <Badge mark={mark} look={look} word={runWord("versionState", props.state)} />;
}

function Badge(props: { mark: string; look: string; word: string }) {
  return (
    <span class={`badge badge-${props.look}`}>
      <span aria-hidden="true">{props.mark}</span> {props.word}
    </span>
  );
}
