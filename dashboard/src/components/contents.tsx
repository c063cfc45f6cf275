/** The headings of a long page, to go to one of them. */

import type { ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { texts } from "../i18n";

/** A page with fewer headings needs no list of them. */
const LEAST_HEADINGS = 4;

/**
 * Lists the headings of its children above them. The list stays in view, but for that of a part:
 * a part's headings are in its own list instead of that of the page.
 */
export function WithContents(props: { children: ComponentChildren; isPart?: boolean }) {
  const t = texts().common;
  const root = useRef<HTMLDivElement>(null);
  const headings = useHeadings(root);
  return (
    <div ref={root} data-contents="">
      {headings.length >= LEAST_HEADINGS && (
        <nav class={props.isPart ? "contents contents-part" : "contents"} aria-label={t.contents}>
          <ul>
            {headings.map((heading, index) => (
              <li key={String(index)}>
                <button type="button" class="quiet" onClick={() => goTo(heading)}>
                  {heading.textContent}
                </button>
              </li>
            ))}
          </ul>
        </nav>
      )}
      {props.children}
    </div>
  );
}

/** The headings as they come and go: parts are loaded, and others are chosen. */
function useHeadings(root: { current: HTMLElement | null }): readonly HTMLElement[] {
  const [headings, setHeadings] = useState<readonly HTMLElement[]>([]);
  useEffect(() => {
    const element = root.current;
    if (!element) {
      return;
    }
    const look = () => setHeadings((before) => sameOr(before, headingsOf(element)));
    look();
    const observer = new MutationObserver(look);
    observer.observe(element, { childList: true, subtree: true });
    return () => observer.disconnect();
  }, [root]);
  return headings;
}

function headingsOf(root: HTMLElement): HTMLElement[] {
  return [...root.querySelectorAll<HTMLElement>("h2")].filter(
    (heading) => heading.closest("[data-contents]") === root,
  );
}

/** The list before where nothing changed, so that nothing is drawn again. */
function sameOr(before: readonly HTMLElement[], now: readonly HTMLElement[]) {
  const isSame = before.length === now.length && before.every((one, index) => one === now[index]);
  return isSame ? before : now;
}

function goTo(heading: HTMLElement): void {
  const details = heading.closest("details");
  if (details) {
    details.open = true;
  }
  heading.tabIndex = -1;
  heading.focus({ preventScroll: true });
  heading.scrollIntoView({ block: "start" });
}
