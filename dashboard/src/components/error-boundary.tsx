import type { ComponentChildren } from "preact";
import { useErrorBoundary } from "preact/hooks";
import { Failure } from "./states";

/** A fault in what is inside is said in its place; the rest of the page stays. */
export function ErrorBoundary(props: { children: ComponentChildren }) {
  const [error, reset] = useErrorBoundary();
  return error === undefined ? props.children : <Failure error={error} onRetry={reset} />;
}
