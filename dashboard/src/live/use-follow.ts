/** A component's store that follows the service while the component is shown. */

import { useEffect, useMemo } from "preact/hooks";
import { keyChanges } from "../api/key";

/** Another store is made when an input changes, or another key is given. */
export function useFollow<T extends { start(): () => void }>(
  make: () => T,
  inputs: readonly unknown[],
): T {
  const store = useMemo(make, [...inputs, keyChanges.value]);
  useEffect(() => store.start(), [store]);
  return store;
}
