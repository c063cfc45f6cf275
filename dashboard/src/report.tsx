/** A report: one job with its plan, without a service. The data is in the page. */

import "./style.css";
import { render } from "preact";
import { useEffect } from "preact/hooks";
import type { PlanSource } from "./api/source";
import type { JobView, ProgressStep, ResultDocument, Timeline } from "./api/types";
import { Settings } from "./components/settings";
import { StateBadge } from "./components/state-badge";
import { dateTime } from "./format";
import { locale, texts } from "./i18n";
import { followTheme } from "./palette";
import { Plan } from "./views/plan";

/** What `loadmaster report` writes into the page. */
interface ReportData {
  job: JobView;
  result: ResultDocument;
  steps: ProgressStep[];
  /** The answer's own timeline comes first; none for plans without a schedule. */
  timelines: Timeline[];
  written_at: string;
  planner_version: string;
}

function Report(props: { data: ReportData }) {
  const { data } = props;
  const t = texts();
  const tag = locale();
  const title = data.job.name ?? data.job.id;
  useEffect(() => {
    document.documentElement.lang = tag;
    document.title = `${title} – ${t.common.appName}`;
  }, [tag, title, t]);
  return (
    <>
      <header class="bar">
        <span class="brand">{t.common.appName}</span>
        <span class="report-origin">
          {t.report.origin(data.planner_version, dateTime(new Date(data.written_at)))}
        </span>
        <Settings />
      </header>
      <main>
        <h1>{title}</h1>
        <p class="row">
          <StateBadge state={data.job.state} />
          <span>{t.common.kinds[data.job.kind as keyof typeof t.common.kinds]}</span>
          <span>{data.job.model}</span>
          <code>{data.job.id}</code>
        </p>
        <Plan source={sourceOf(data)} />
      </main>
    </>
  );
}

function sourceOf(data: ReportData): PlanSource {
  return {
    job: data.job,
    result: data.result,
    steps: data.steps,
    timeline: async (choice) => {
      const found = choice
        ? data.timelines.find(
            (one) => one.schedule === choice.schedule && one.placement === choice.placement,
          )
        : data.timelines[0];
      if (!found) {
        throw new Error(texts().report.notIncluded);
      }
      return found;
    },
    exports: async () => [],
    hasClassicTimelines: data.timelines.length > 1,
    isReport: true,
  };
}

followTheme();
const root = document.getElementById("app");
const data = document.getElementById("report-data")?.textContent;
if (root && data) {
  render(<Report data={JSON.parse(data)} />, root);
}
