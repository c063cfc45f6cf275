/** The classic schedule whose name a plan bears. */

import type { Contender } from "./comparison";

/**
 * The row of the comparison that is named like what found the plan, where it is not the plan itself.
 * The comparison has each schedule as it was published, and of a family the best member that there
 * was time for; the solver's own start of that name may offload more, or run W later.
 */
export function namesake(foundBy: string, contenders: readonly Contender[]): Contender | null {
  const [own, ...others] = contenders;
  const named = others.filter((row) => row.name.toLowerCase() === foundBy.toLowerCase());
  const isPlan = (row: Contender) => row.fits && row.objectiveNs === own?.objectiveNs;
  return named.length === 0 || named.some(isPlan) ? null : (named[0] ?? null);
}
