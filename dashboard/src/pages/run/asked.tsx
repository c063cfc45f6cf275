import type { ComponentChildren } from "preact";
import { useCallback, useState } from "preact/hooks";
import { ApiError, ask } from "../../api/client";
import { Empty, Failure, Loading } from "../../components/states";

export interface Asked<T> {
  value: T | null;
  error: unknown;
  isAsking: boolean;
  ask: () => void;
}

/** What the service works out of a run, when somebody wants it: it takes a moment each time. */
export function useAsked<T>(path: string): Asked<T> {
  const [state, setState] = useState<Omit<Asked<T>, "ask">>({
    value: null,
    error: null,
    isAsking: false,
  });
  const askNow = useCallback(() => {
    setState((before) => ({ ...before, error: null, isAsking: true }));
    ask<T>(path).then(
      ({ body }) => setState({ value: body, error: null, isAsking: false }),
      (error) => setState({ value: null, error, isAsking: false }),
    );
  }, [path]);
  return { ...state, ask: askNow };
}

interface Props<T> {
  asked: Asked<T>;
  title: string;
  explanation?: string;
  texts: { ask: string; again: string; loading: string; noPlan: string };
  children: (value: T) => ComponentChildren;
}

/** A panel with a button that asks for what is in it. */
export function AskedPanel<T>(props: Props<T>) {
  const { asked, texts: t } = props;
  const { value, error, isAsking } = asked;
  return (
    <section class="panel">
      <div class="row">
        <h2>{props.title}</h2>
        <button type="button" disabled={isAsking} onClick={asked.ask}>
          {value === null ? t.ask : t.again}
        </button>
      </div>
      {props.explanation && <p class="faint">{props.explanation}</p>}
      {isAsking && <Loading what={t.loading} />}
      {!isAsking && error !== null && (
        <Refused error={error} noPlan={t.noPlan} onRetry={asked.ask} />
      )}
      {!isAsking && value !== null && props.children(value)}
    </section>
  );
}

function Refused(props: { error: unknown; noPlan: string; onRetry: () => void }) {
  const { error } = props;
  return error instanceof ApiError && error.code === "no_plan_yet" ? (
    <Empty title={props.noPlan} />
  ) : (
    <Failure error={error} onRetry={props.onRetry} />
  );
}
