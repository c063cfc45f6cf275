import { texts } from "../i18n";

export type Axes = "logarithmic" | "linear";

/** Whether both axes of a chart are logarithmic. */
export function AxesChoice(props: { axes: Axes; onChange: (axes: Axes) => void }) {
  const t = texts().common.axes;
  return (
    <label>
      {t.title}{" "}
      <select
        value={props.axes}
        onChange={(event) => props.onChange(event.currentTarget.value as Axes)}
      >
        <option value="logarithmic">{t.logarithmic}</option>
        <option value="linear">{t.linear}</option>
      </select>
    </label>
  );
}
