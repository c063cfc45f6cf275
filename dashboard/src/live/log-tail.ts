/** The last lines of a log, in chunks that stay the same objects while lines are added. */

const LINES_OF_A_CHUNK = 200;

export interface LogChunk {
  /** The number of its first line. */
  first: number;
  lines: readonly string[];
}

export interface LogTail {
  chunks: readonly LogChunk[];
  /** The number of the next line: how many there were in all. */
  next: number;
}

export const NO_LINES: LogTail = { chunks: [], next: 0 };
export const MOST_LINES = 4000;

/** The tail with more lines. Those that it has already are not added again. */
export function withLines(
  tail: LogTail,
  offset: number,
  lines: readonly string[],
  most = MOST_LINES,
): LogTail {
  const fresh = lines.slice(Math.max(0, tail.next - offset));
  if (fresh.length === 0) {
    return tail;
  }
  const first = Math.max(offset, tail.next);
  const chunks = [...tail.chunks];
  let taken = 0;
  const last = chunks.at(-1);
  if (last && last.lines.length < LINES_OF_A_CHUNK && last.first + last.lines.length === first) {
    taken = Math.min(fresh.length, LINES_OF_A_CHUNK - last.lines.length);
    chunks[chunks.length - 1] = {
      first: last.first,
      lines: [...last.lines, ...fresh.slice(0, taken)],
    };
  }
  for (; taken < fresh.length; taken += LINES_OF_A_CHUNK) {
    chunks.push({ first: first + taken, lines: fresh.slice(taken, taken + LINES_OF_A_CHUNK) });
  }
  return { chunks: lastChunks(chunks, most), next: first + fresh.length };
}

export function linesOf(tail: LogTail): string[] {
  return tail.chunks.flatMap((chunk) => chunk.lines);
}

/** How many lines at the beginning are not kept. */
export function droppedLines(tail: LogTail): number {
  return tail.chunks[0]?.first ?? 0;
}

function lastChunks(chunks: LogChunk[], most: number): LogChunk[] {
  let kept = 0;
  let from = chunks.length;
  while (from > 0 && kept < most) {
    from -= 1;
    kept += chunks[from]?.lines.length ?? 0;
  }
  return chunks.slice(from);
}
