import type { ComponentChildren } from "preact";
import { number, percent, writerOf } from "../../format";
import { texts } from "../../i18n";
import { bytesDifference, countDifference, shareDifference, timeDifference } from "./difference";

/** One line of the table, its figures in one unit of figures; text where there is no difference to work out. */
export interface Figure {
  name: string;
  a: string | null;
  b: string | null;
  difference: string;
}

type Value = number | null | undefined;

export function timeFigure(name: string, a: Value, b: Value): Figure {
  return figure(name, a, b, writerOf("time", [a, b]), timeDifference);
}

export function bytesFigure(name: string, a: Value, b: Value): Figure {
  return figure(name, a, b, writerOf("bytes", [a, b]), bytesDifference);
}

export function countFigure(name: string, a: Value, b: Value): Figure {
  return figure(name, a, b, (value) => number(value), countDifference);
}

export function shareFigure(name: string, a: Value, b: Value): Figure {
  return figure(name, a, b, (value) => percent(value), shareDifference);
}

export function secondsFigure(name: string, a: Value, b: Value): Figure {
  const write = (value: number) => `${number(value, 1)} s`;
  return figure(name, a, b, write, () => "");
}

export function textFigure(name: string, a: string | undefined, b: string | undefined): Figure {
  const t = texts().compare.facts;
  const isKnown = a !== undefined && b !== undefined;
  const difference = isKnown ? (a === b ? t.same : t.differs) : "–";
  return { name, a: a ?? null, b: b ?? null, difference };
}

export function FiguresTable(props: { figures: readonly Figure[]; title: ComponentChildren }) {
  const t = texts().compare;
  const shown = props.figures.filter((entry) => entry.a !== null || entry.b !== null);
  return (
    <section class="panel">
      <h2>{props.title}</h2>
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: a region that scrolls has to be reached by keys. */}
      <section class="table-frame" tabIndex={0} aria-label={t.facts.title}>
        <table class="compare-figures">
          <thead>
            <tr>
              <th scope="col">{t.facts.figure}</th>
              <th scope="col" class="numeric">
                {t.a}
              </th>
              <th scope="col" class="numeric">
                {t.b}
              </th>
              <th scope="col" class="numeric">
                {t.facts.difference}
              </th>
            </tr>
          </thead>
          <tbody>
            {shown.map((entry) => (
              <tr key={entry.name}>
                <th scope="row">{entry.name}</th>
                <td class="numeric">{entry.a ?? "–"}</td>
                <td class="numeric">{entry.b ?? "–"}</td>
                <td class="numeric">{entry.difference}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </section>
    </section>
  );
}

function figure(
  name: string,
  a: Value,
  b: Value,
  write: (value: number) => string,
  difference: (a: number, b: number) => string,
): Figure {
  const [left, right] = [a ?? null, b ?? null];
  return {
    name,
    a: left === null ? null : write(left),
    b: right === null ? null : write(right),
    difference: left === null || right === null ? "–" : difference(left, right),
  };
}
