/** One training run: what runs now, what was measured, and what is being done about it. */

import { useState } from "preact/hooks";
import { ApiError } from "../../api/client";
import type { RunView } from "../../api/types";
import { WithContents } from "../../components/contents";
import { LiveMark, StaleBanner } from "../../components/live-mark";
import { Empty, Failure, Loading } from "../../components/states";
import { texts } from "../../i18n";
import { useFollow } from "../../live/use-follow";
import { href } from "../../route";
import { useTitle } from "../../use-title";
import { RunBadge } from "../runs/badges";
import { runName } from "../runs/words";
import { DiagnosisPanel } from "./diagnosis-panel";
import { EventsPanel } from "./events-panel";
import { Headline } from "./headline";
import { ProposalsPanel } from "./proposals-panel";
import { SchedulePanel } from "./schedule-panel";
import { SettingsPanel } from "./settings-panel";
import { StagesPanel } from "./stages-panel";
import { StopDialog } from "./stop-dialog";
import { OneRun } from "./store";
import { VersionsPanel } from "./versions-panel";
import "../../styles/jobs.css";
import "../../styles/runs.css";

export function RunPage(props: { id: string }) {
  const store = useFollow(() => new OneRun(props.id), [props.id]);
  const run = store.run.value;
  useTitle(run ? runName(run) : texts().runs.run.title(props.id));
  return run ? <Run store={store} run={run} /> : <Unknown store={store} id={props.id} />;
}

function Unknown(props: { store: OneRun; id: string }) {
  const t = texts().runs.run;
  const { follower } = props.store;
  const error = follower.error.value;
  const isUnknown = error instanceof ApiError && (error.status === 404 || error.status === 422);
  return (
    <>
      <h1 class="long-name">{t.title(props.id)}</h1>
      {isUnknown ? (
        <div class="panel">
          <Empty title={t.notFound}>
            <p class="faint">{t.notFoundHint}</p>
            <a class="button" href={href(["runs"])}>
              {t.toRuns}
            </a>
          </Empty>
        </div>
      ) : error === null ? (
        <Loading what={t.loading} />
      ) : (
        <Failure error={error} onRetry={() => follower.retry()} />
      )}
    </>
  );
}

function Run(props: { store: OneRun; run: RunView }) {
  const { store, run } = props;
  const { follower } = store;
  const isFailed = follower.mode.value === "failed" && follower.error.value !== null;
  return (
    <>
      <Head store={store} run={run} />
      <StaleBanner follower={follower} />
      {isFailed && <Failure error={follower.error.value} onRetry={() => follower.retry()} />}
      <WithContents>
        <Headline run={run} />
        <VersionsPanel run={run} />
        <StagesPanel run={run} />
        <SchedulePanel run={run} />
        <DiagnosisPanel run={run} />
        <ProposalsPanel run={run} />
        <EventsPanel run={run} />
        <SettingsPanel run={run} />
      </WithContents>
    </>
  );
}

function Head(props: { store: OneRun; run: RunView }) {
  const t = texts().runs.run;
  const { store, run } = props;
  const [isStopping, setStopping] = useState(false);
  return (
    <div class="row page-head">
      <h1>{runName(run)}</h1>
      <span role="status">
        <RunBadge state={run.state} />
      </span>
      {run.model && <span class="faint">{run.model}</span>}
      <LiveMark follower={store.follower} />
      {run.state === "active" && (
        <div class="page-action">
          <button type="button" class="danger" onClick={() => setStopping(true)}>
            {t.stop}
          </button>
        </div>
      )}
      {isStopping && (
        <StopDialog
          run={run}
          onClose={() => setStopping(false)}
          onStopped={() => store.follower.retry()}
        />
      )}
    </div>
  );
}
