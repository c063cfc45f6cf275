import type { RunVersion, RunView } from "../../api/types";
import { Age } from "../../components/age";
import { CopyButton } from "../../components/copy-button";
import { DateTime } from "../../components/date-time";
import { Fact, known } from "../../components/fact";
import { StateBadge } from "../../components/state-badge";
import { duration, exactTime, number } from "../../format";
import { texts } from "../../i18n";
import { href } from "../../route";
import { VersionBadge } from "../runs/badges";
import { runWord } from "../runs/words";
import { Gain } from "./gain";

/** What runs now, what comes next, and whether a plan is being looked for. */
export function Headline(props: { run: RunView }) {
  const t = texts().runs.headline;
  const { run } = props;
  const running = runningVersion(run);
  return (
    <section class="panel">
      <h2>{t.title}</h2>
      <div role="status">
        <p class="run-sentence">{sentence(run, running)}</p>
        <Next run={run} />
        <ReSolve run={run} />
      </div>
      <dl class="facts run-facts">
        {running && <RunningFacts version={running} />}
        <Fact name={t.iteration}>{known(run.newest_iteration, number)}</Fact>
        <Fact name={t.news}>{run.telemetry_at && <Age at={run.telemetry_at} />}</Fact>
        <Fact name={t.ranks}>{number(run.ranks)}</Fact>
        <Fact name={t.made}>
          <DateTime at={run.created_at} />
        </Fact>
        <Fact name={t.stopped}>{run.stopped_at && <DateTime at={run.stopped_at} />}</Fact>
        <Fact name={t.id}>
          <code class="long-name">{run.id}</code> <CopyButton text={() => run.id} label={t.id} />
        </Fact>
      </dl>
    </section>
  );
}

export function runningVersion(run: RunView): RunVersion | null {
  return run.versions.find((version) => version.version === run.running_version) ?? null;
}

function sentence(run: RunView, running: RunVersion | null): string {
  const t = texts().runs.headline;
  if (running === null) {
    return run.newest_version === null ? t.nothing : t.waits(run.newest_version);
  }
  return running.apply_at_iteration === null
    ? t.runsUnscheduled(running.version)
    : t.runs(running.version, number(running.apply_at_iteration));
}

function RunningFacts(props: { version: RunVersion }) {
  const t = texts().runs.headline;
  const { version } = props;
  const { makespan_ns: makespan, predicted_gain: predicted } = version;
  return (
    <>
      <Fact name={t.version}>
        {version.version} <VersionBadge state={version.state} />
      </Fact>
      <Fact name={t.makespan}>
        {makespan === null ? null : <span title={exactTime(makespan)}>{duration(makespan)}</span>}
      </Fact>
      <Fact name={t.predicted} help={t.predictedHelp}>
        <Gain share={predicted} none={t.noGain} />
      </Fact>
      <Fact name={t.low} help={t.lowHelp}>
        {version.gain_low === null ? null : <Gain share={version.gain_low} />}
      </Fact>
      <Fact name={t.measured} help={t.measuredHelp}>
        {predicted === null ? null : <Gain share={version.measured_gain} none={t.notMeasured} />}
      </Fact>
    </>
  );
}

/** What the newest version waits for, where it is not the one that runs. */
function Next(props: { run: RunView }) {
  const t = texts().runs.headline;
  const newest = props.run.versions[0];
  if (!newest || newest.version === props.run.running_version) {
    return null;
  }
  if (newest.needs_restart) {
    return <p>{t.restart(newest.version)}</p>;
  }
  if (newest.state === "published") {
    return <p>{t.published(newest.version, newest.acknowledged, newest.of)}</p>;
  }
  return newest.state === "scheduled" && newest.apply_at_iteration !== null ? (
    <p>{t.scheduled(newest.version, number(newest.apply_at_iteration))}</p>
  ) : null;
}

function ReSolve(props: { run: RunView }) {
  const t = texts().runs.reSolve;
  const solve = props.run.re_solve;
  if (solve === null) {
    return props.run.state === "active" ? <p class="faint">{t.none}</p> : null;
  }
  return (
    <p>
      {t.text(runWord("reason", solve.reason), number(solve.since_iteration))}{" "}
      <span class="faint">{t.state}</span> <StateBadge state={solve.state} />{" "}
      <a href={href(["jobs", solve.job_id])}>{t.toJob}</a>
    </p>
  );
}
