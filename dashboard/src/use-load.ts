/** Load something once, and again when it depends on something else or another key is given. */

import { type Inputs, useCallback, useEffect, useState } from "preact/hooks";
import { keyChanges } from "./api/key";

export interface Loaded<T> {
  value: T | null;
  error: unknown;
  isLoading: boolean;
  reload: () => void;
}

/** What was loaded before stays until the next is there, unless that fails. */
export function useLoad<T>(load: (signal: AbortSignal) => Promise<T>, inputs: Inputs): Loaded<T> {
  const [state, setState] = useState<{ value: T | null; error: unknown; isLoading: boolean }>({
    value: null,
    error: null,
    isLoading: true,
  });
  const [attempt, setAttempt] = useState(0);
  const reload = useCallback(() => setAttempt((count) => count + 1), []);
  useEffect(() => {
    const controller = new AbortController();
    setState((before) => ({ ...before, isLoading: true }));
    load(controller.signal).then(
      (value) => {
        if (!controller.signal.aborted) {
          setState({ value, error: null, isLoading: false });
        }
      },
      (error) => {
        if (!controller.signal.aborted) {
          setState({ value: null, error, isLoading: false });
        }
      },
    );
    return () => controller.abort();
  }, [...inputs, attempt, keyChanges.value]);
  return { ...state, reload };
}
