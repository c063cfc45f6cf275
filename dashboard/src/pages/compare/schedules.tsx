import { signal } from "@preact/signals";
import { useMemo } from "preact/hooks";
import type { Timeline } from "../../api/types";
import { whole } from "../../charts/gantt/window";
import { Failure, Loading } from "../../components/states";
import { texts } from "../../i18n";
import type { Loaded } from "../../use-load";
import { GanttView, type SharedAxis } from "../../views/gantt";
import { firstMemory } from "../../views/gantt/state";

interface Props {
  a: Loaded<Timeline>;
  b: Loaded<Timeline>;
  names: { a: string; b: string };
}

/** Both schedules, one above the other on one axis of time. */
export function Schedules(props: Props) {
  const t = texts().compare;
  const [a, b] = [props.a.value, props.b.value];
  const axis = useMemo(() => (a && b ? sharedAxis(a, b) : null), [a, b]);
  const isLoading = axis === null && !props.a.error && !props.b.error;
  return (
    <section class="panel">
      <h2>{t.schedules.title}</h2>
      {isLoading ? (
        <Loading what={t.schedules.loading} />
      ) : (
        <>
          {axis && <p class="faint">{t.schedules.note}</p>}
          <Schedule loaded={props.a} title={`${t.a}: ${props.names.a}`} axis={axis} />
          <Schedule loaded={props.b} title={`${t.b}: ${props.names.b}`} axis={axis} />
        </>
      )}
    </section>
  );
}

function Schedule(props: { loaded: Loaded<Timeline>; title: string; axis: SharedAxis | null }) {
  const { value, error, reload } = props.loaded;
  return (
    <>
      <h3 class="schedule-title">{props.title}</h3>
      {value ? (
        <GanttView
          timeline={value}
          title={props.title}
          {...(props.axis ? { axis: props.axis } : {})}
        />
      ) : error ? (
        <Failure error={error} onRetry={reload} />
      ) : (
        <Loading what={texts().compare.schedules.loading} />
      )}
    </>
  );
}

/** As long as the longer one, bounds included; both charts then start out showing all of it, and
 * the memory of the same device. */
function sharedAxis(a: Timeline, b: Timeline): SharedAxis {
  const untilNs = Math.max(
    a.makespan_ns,
    b.makespan_ns,
    a.lower_bound_ns ?? 0,
    b.lower_bound_ns ?? 0,
  );
  const axis = { untilNs, view: signal(whole(untilNs)) };
  const isAlike = a.devices.length === b.devices.length && a.hosts.length === b.hosts.length;
  return isAlike ? { ...axis, memory: signal(firstMemory(a)) } : axis;
}
