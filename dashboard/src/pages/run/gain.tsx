import { percent } from "../../format";

/** A share of the iteration that a plan saves; a dash, or another word, where it is not known. */
export function Gain(props: { share: number | null; none?: string }) {
  const { share } = props;
  if (share === null) {
    return <span class="faint">{props.none ?? "–"}</span>;
  }
  return (
    <span class={share > 0 ? "gain-good" : share < 0 ? "gain-bad" : ""}>{percent(share)}</span>
  );
}
