import { useComputed } from "@preact/signals";
import { age, dateTime, utcTime } from "../format";
import { now, serviceTime } from "../live/clock";

/** How long ago the service did something; it counts on by itself. */
export function Age(props: { at: string }) {
  const at = new Date(props.at);
  return (
    <time dateTime={props.at} title={`${dateTime(at)} – ${utcTime(at)}`}>
      <AgeText key={props.at} at={at} />
    </time>
  );
}

function AgeText(props: { at: Date }) {
  const text = useComputed(() => age(props.at, serviceTime(now.value)));
  return <>{text}</>;
}
