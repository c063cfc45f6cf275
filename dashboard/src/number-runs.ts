/** Lists of numbers in short, for people. */

/** Whole numbers in ascending order: `0–3, 7`. */
export function ranges(numbers: readonly number[]): string {
  const runs: [number, number][] = [];
  for (const value of numbers) {
    const last = runs.at(-1);
    if (last && value === last[1] + 1) {
      last[1] = value;
    } else {
      runs.push([value, value]);
    }
  }
  return runs.map(([from, to]) => (from === to ? `${from}` : `${from}–${to}`)).join(", ");
}

/** Numbers with repetitions: `2 ×3, 1`. */
export function runsText(numbers: readonly number[]): string {
  const runs: { value: number; times: number }[] = [];
  for (const value of numbers) {
    const last = runs.at(-1);
    if (last?.value === value) {
      last.times += 1;
    } else {
      runs.push({ value, times: 1 });
    }
  }
  return runs
    .map(({ value, times }) => (times === 1 ? `${value}` : `${value} ×${times}`))
    .join(", ");
}
