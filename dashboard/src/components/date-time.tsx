import { dateTime, utcTime } from "../format";

/** A date and time of the reader's place; the pointer shows it in UTC. */
export function DateTime(props: { at: string }) {
  const at = new Date(props.at);
  return (
    <time dateTime={props.at} title={utcTime(at)}>
      {dateTime(at)}
    </time>
  );
}
