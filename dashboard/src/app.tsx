/** The page around all pages: navigation, language, colours and the key. */

import { useEffect } from "preact/hooks";
import { keyAsked } from "./api/key";
import { KeyDialog } from "./components/key-dialog";
import { lazily } from "./components/lazily";
import { Settings } from "./components/settings";
import { Empty } from "./components/states";
import { locale, texts } from "./i18n";
import { JobsPage } from "./pages/jobs";
import { href, route } from "./route";

// The list is what is looked at most; charts and forms come when they are wanted.
const ComparePage = lazily(async () => (await import("./pages/compare")).ComparePage);
const JobPage = lazily(async () => (await import("./pages/job")).JobPage);
const DiagnosePage = lazily(async () => (await import("./pages/diagnose")).DiagnosePage);
const NewPage = lazily(async () => (await import("./pages/new")).NewPage);
const RunPage = lazily(async () => (await import("./pages/run")).RunPage);
const RunsPage = lazily(async () => (await import("./pages/runs")).RunsPage);

export function App() {
  const t = texts().common;
  const [page = "jobs"] = route.value.path;
  const tag = locale();
  useEffect(() => {
    document.documentElement.lang = tag;
  }, [tag]);
  return (
    <>
      <button type="button" class="skip-link" onClick={focusContent}>
        {t.skipToContent}
      </button>
      <header class="bar">
        <a class="brand" href={href([])}>
          {t.appName}
        </a>
        <nav aria-label={t.navigation}>
          <PageLink page="jobs" shown={page} title={t.jobs} />
          <PageLink page="new" shown={page} title={t.newPlan} />
          <PageLink page="compare" shown={page} title={t.compare} />
          <PageLink page="runs" shown={page} title={t.runs} />
          <PageLink page="diagnose" shown={page} title={t.diagnose} />
        </nav>
        <Settings />
      </header>
      <main id="content" tabIndex={-1}>
        <Page />
      </main>
      {keyAsked.value && <KeyDialog />}
    </>
  );
}

function Page() {
  const [page = "jobs", id] = route.value.path;
  switch (page) {
    case "jobs":
      return id === undefined ? <JobsPage /> : <JobPage key={id} id={id} />;
    case "new":
      return <NewPage />;
    case "compare":
      return <ComparePage />;
    case "runs":
      return id === undefined ? <RunsPage /> : <RunPage key={id} id={id} />;
    case "diagnose":
      return <DiagnosePage />;
    default:
      return <Empty title={texts().common.notFound} />;
  }
}

function PageLink(props: { page: string; shown: string; title: string }) {
  return (
    <a href={href([props.page])} aria-current={props.page === props.shown ? "page" : undefined}>
      {props.title}
    </a>
  );
}

/** A link would not do: what follows `#` in the address is the page that is shown. */
function focusContent(): void {
  document.getElementById("content")?.focus();
}
