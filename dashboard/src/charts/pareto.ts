/** The front of points of which less is better in both directions. */

/** The points that no other is at least as good as in both, by the first; of equals the first. */
export function paretoFront<Point>(
  points: readonly Point[],
  place: (point: Point) => readonly [number, number],
): Point[] {
  const ordered = [...points].sort((a, b) => {
    const [[ax, ay], [bx, by]] = [place(a), place(b)];
    return ax - bx || ay - by;
  });
  let least = Number.POSITIVE_INFINITY;
  return ordered.filter((point) => {
    const isBetter = place(point)[1] < least;
    least = Math.min(least, place(point)[1]);
    return isBetter;
  });
}

/** A line of steps: what is best holds until the next point. */
export function stepLine(name: string, colour: string, data: readonly (readonly number[])[]) {
  return {
    type: "line" as const,
    name,
    step: "end" as const,
    symbol: "none",
    silent: true,
    z: 1,
    itemStyle: { color: colour },
    lineStyle: { color: colour, width: 2 },
    data: data.map((place) => [...place]),
  };
}
