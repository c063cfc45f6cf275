/** All jobs as they are now, newest first. */

import { useSignal } from "@preact/signals";
import { useMemo } from "preact/hooks";
import { serviceAddress } from "../../api/client";
import { LiveMark, StaleBanner } from "../../components/live-mark";
import { SortableTable } from "../../components/sortable-table";
import { Empty, Failure, Loading } from "../../components/states";
import { texts } from "../../i18n";
import type { JobFilters } from "../../live/job-changes";
import { JobList } from "../../live/job-list";
import { useFollow } from "../../live/use-follow";
import { href } from "../../route";
import { useTitle } from "../../use-title";
import { serverOption } from "../new/commands";
import { ChoiceBar } from "./choice";
import { columnsOf } from "./columns";
import { clearFilters, Filters, filtersOfAddress } from "./filters";
import "../../styles/jobs.css";

export function JobsPage() {
  const t = texts().jobs;
  const filters = filtersOfAddress();
  const list = useFollow(() => new JobList(filters), [JSON.stringify(filters)]);
  useTitle(t.title);
  return (
    <>
      <div class="row page-head">
        <h1>{t.title}</h1>
        <Count list={list} />
        <LiveMark follower={list.follower} />
        <a class="button primary page-action" href={href(["new"])}>
          {t.make}
        </a>
      </div>
      <Filters filters={filters} />
      <StaleBanner follower={list.follower} />
      <Content list={list} filters={filters} />
    </>
  );
}

function Count(props: { list: JobList }) {
  const jobs = props.list.jobs.value;
  return (
    <span class="faint" role="status">
      {jobs && texts().jobs.shown(jobs.length, props.list.hasMore.value)}
    </span>
  );
}

function Content(props: { list: JobList; filters: JobFilters }) {
  const { list } = props;
  const jobs = list.jobs.value;
  const error = list.follower.error.value;
  if (jobs === null) {
    return error === null ? (
      <Loading />
    ) : (
      <Failure error={error} onRetry={() => list.follower.retry()} />
    );
  }
  const isFiltered = Object.values(props.filters).some(Boolean);
  return (
    <>
      {error !== null && list.follower.mode.value === "failed" && (
        <Failure error={error} onRetry={() => list.follower.retry()} />
      )}
      {jobs.length > 0 ? <Jobs list={list} /> : isFiltered ? <NoMatch /> : <NoJobs />}
    </>
  );
}

function Jobs(props: { list: JobList }) {
  const { list } = props;
  const messages = texts();
  const t = messages.jobs;
  const choice = useSignal<readonly string[]>([]);
  const columns = useMemo(
    () => columnsOf(messages, choice, (job) => list.change(job)),
    [messages, list],
  );
  const moreError = list.moreError.value;
  return (
    <>
      <ChoiceBar choice={choice} />
      <div class="panel jobs-panel">
        <SortableTable
          caption={t.caption}
          columns={columns}
          rows={list.jobs.value ?? []}
          rowKey={(job) => job.id}
        />
      </div>
      {moreError !== null && <Failure error={moreError} />}
      {list.hasMore.value && (
        <button
          type="button"
          disabled={list.isLoadingMore.value}
          onClick={() => void list.loadMore()}
        >
          {list.isLoadingMore.value ? messages.common.loading : t.more}
        </button>
      )}
    </>
  );
}

function NoMatch() {
  const t = texts().jobs;
  return (
    <div class="panel">
      <Empty title={t.noMatch}>
        <p class="faint">{t.noMatchHint}</p>
        <button type="button" onClick={clearFilters}>
          {t.filters.clear}
        </button>
      </Empty>
    </div>
  );
}

function NoJobs() {
  const t = texts().jobs;
  return (
    <div class="panel">
      <Empty title={t.none}>
        <p>{t.noneHint}</p>
        <p>
          <a class="button primary" href={href(["new"])}>
            {t.make}
          </a>
        </p>
        <p class="faint">{t.noneOrCommand}</p>
        <p>
          <code>
            {["loadmaster solve request.json --wait", ...serverOption(serviceAddress())].join(" ")}
          </code>
        </p>
      </Empty>
    </div>
  );
}
