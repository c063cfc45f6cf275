/** The end of the solver's log, which follows new lines until somebody scrolls up. */

import { useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { CopyButton } from "../../components/copy-button";
import { number } from "../../format";
import { texts } from "../../i18n";
import { droppedLines, type LogChunk, type LogTail, linesOf } from "../../live/log-tail";

/** How far from the end still counts as the end. */
const AT_END_PX = 24;

export function Log(props: { log: LogTail; isOver: boolean }) {
  const t = texts().job.log;
  const { log, isOver } = props;
  const frame = useRef<HTMLPreElement>(null);
  const [isFollowing, setFollowing] = useState(!isOver);

  useLayoutEffect(() => {
    if (isFollowing && frame.current) {
      frame.current.scrollTop = frame.current.scrollHeight;
    }
  }, [log, isFollowing]);

  if (log.chunks.length === 0) {
    return (
      <>
        {!isOver && <h2>{t.title}</h2>}
        <p class="faint">{isOver ? t.empty : t.emptyYet}</p>
      </>
    );
  }
  const dropped = droppedLines(log);
  return (
    <>
      <div class="row log-head">
        {!isOver && <h2>{t.title}</h2>}
        <span class="faint">{t.lines(number(log.next))}</span>
        {!isOver &&
          (isFollowing ? (
            <span class="faint">{t.following}</span>
          ) : (
            <button type="button" class="quiet" onClick={() => setFollowing(true)}>
              {t.follow}
            </button>
          ))}
        <CopyButton text={() => linesOf(log).join("\n")} label={t.title} />
      </div>
      {dropped > 0 && <p class="faint">{t.dropped(number(dropped))}</p>}
      <pre
        ref={frame}
        class="job-log"
        // biome-ignore lint/a11y/noNoninteractiveTabindex: a region that scrolls has to be reached by keys.
        tabIndex={0}
        role="log"
        aria-live="off"
        aria-label={t.label}
        onScroll={(event) => setFollowing(!isOver && isAtEnd(event.currentTarget))}
      >
        {log.chunks.map((chunk) => (
          <Chunk key={chunk.first} chunk={chunk} />
        ))}
      </pre>
    </>
  );
}

/** Written again only if lines were added to it. */
function Chunk(props: { chunk: LogChunk }) {
  const text = useMemo(() => `${props.chunk.lines.join("\n")}\n`, [props.chunk]);
  return <span>{text}</span>;
}

function isAtEnd(element: HTMLElement): boolean {
  return element.scrollHeight - element.scrollTop - element.clientHeight < AT_END_PX;
}
