/** All training runs that are followed, as they are now, newest first. */

import { useMemo } from "preact/hooks";
import { serviceAddress } from "../../api/client";
import type { RunItem } from "../../api/types";
import { ChoiceFilter, FilterForm } from "../../components/filter-form";
import { LiveMark, StaleBanner } from "../../components/live-mark";
import { SortableTable } from "../../components/sortable-table";
import { Empty, Failure, Loading } from "../../components/states";
import { texts } from "../../i18n";
import { useFollow } from "../../live/use-follow";
import { route, setQuery } from "../../route";
import { useTitle } from "../../use-title";
import { columnsOf } from "./columns";
import { RunList } from "./list";
import { runWord } from "./words";
import "../../styles/jobs.css";
import "../../styles/runs.css";

const STATES: readonly RunItem["state"][] = ["active", "stopped"];

export function RunsPage() {
  const t = texts().runs;
  const state = route.value.query.get("state") ?? undefined;
  const list = useFollow(() => new RunList(state), [state]);
  const runs = list.runs.value;
  useTitle(t.title);
  return (
    <>
      <div class="row page-head">
        <h1>{t.title}</h1>
        <span class="faint" role="status">
          {runs && t.shown(runs.length, list.hasMore.value)}
        </span>
        <LiveMark follower={list.follower} />
      </div>
      <Filter state={state} />
      <StaleBanner follower={list.follower} />
      <Content list={list} isFiltered={state !== undefined} />
    </>
  );
}

function Filter(props: { state: string | undefined }) {
  const t = texts().runs.filter;
  return (
    <FilterForm label={t.label}>
      <ChoiceFilter
        name="state"
        label={t.state}
        value={props.state}
        any={t.any}
        choices={STATES}
        word={(state) => runWord("runState", state)}
      />
    </FilterForm>
  );
}

function Content(props: { list: RunList; isFiltered: boolean }) {
  const { list } = props;
  const messages = texts();
  const t = messages.runs;
  const columns = useMemo(() => columnsOf(messages), [messages]);
  const runs = list.runs.value;
  const { follower } = list;
  const error = follower.error.value;
  if (runs === null) {
    return error === null ? (
      <Loading />
    ) : (
      <Failure error={error} onRetry={() => follower.retry()} />
    );
  }
  return (
    <>
      {error !== null && follower.mode.value === "failed" && (
        <Failure error={error} onRetry={() => follower.retry()} />
      )}
      {runs.length === 0 && (props.isFiltered ? <NoMatch /> : <NoRuns />)}
      {runs.length > 0 && (
        <div class="panel jobs-panel">
          <SortableTable
            caption={t.caption}
            columns={columns}
            rows={runs}
            rowKey={(run) => run.id}
          />
        </div>
      )}
      {list.hasMore.value && (
        <button type="button" onClick={() => list.loadMore()}>
          {t.more}
        </button>
      )}
    </>
  );
}

function NoMatch() {
  const t = texts().runs;
  return (
    <div class="panel">
      <Empty title={t.noMatch}>
        <button type="button" onClick={() => setQuery({ state: undefined })}>
          {t.filter.clear}
        </button>
      </Empty>
    </div>
  );
}

function NoRuns() {
  const t = texts().runs;
  return (
    <div class="panel">
      <Empty title={t.none}>
        <p>{t.noneHint}</p>
        <p>
          <code class="long-name">{`POST ${serviceAddress()}/v1/runs`}</code>
        </p>
      </Empty>
    </div>
  );
}
