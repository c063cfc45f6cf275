import { useEffect } from "preact/hooks";
import { texts } from "./i18n";

/** The title of the tab. */
export function useTitle(title: string): void {
  const appName = texts().common.appName;
  useEffect(() => {
    document.title = `${title} – ${appName}`;
  }, [title, appName]);
}
