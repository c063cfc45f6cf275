/** The request of a pipeline schedule for a plan, as the form for new plans takes it over. */

import type { Draft } from "../../draft";

/** The plan's `training` on the model and the cluster that were asked for; null where these are
 * not known. */
export function draftOf(
  request: Record<string, unknown>,
  training: Record<string, unknown>,
): Draft | null {
  const { model, cluster } = request;
  if (model === undefined || cluster === undefined) {
    return null;
  }
  return { kind: "pipeline", body: { model, cluster, training } };
}
