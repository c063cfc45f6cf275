/** At which field of the form a problem is shown that the service has with a body. */

import type { FieldProblem } from "../../api/client";
import type { Field } from "./field";

export interface PlacedProblem extends FieldProblem {
  /** The field's path; null where no field is about it. */
  field: string | null;
}

/** A part given by a name or a number alone has its problems at the field for that. */
const STANDS_FOR = ["preset", "gpu.preset", "count"];

export function placed(
  problems: readonly FieldProblem[],
  fields: readonly Field[],
): PlacedProblem[] {
  const paths = fields.map((field) => field.path);
  return problems.map((problem) => ({ ...problem, field: fieldFor(problem.path, paths) }));
}

function fieldFor(path: string, paths: readonly string[]): string | null {
  if (paths.includes(path)) {
    return path;
  }
  const part = STANDS_FOR.map((name) => `${path}.${name}`).find((name) => paths.includes(name));
  if (part !== undefined) {
    return part;
  }
  // An entry of a list is part of the field that has the list.
  const whole = paths.filter((name) => path.startsWith(`${name}.`));
  return whole.sort((a, b) => b.length - a.length)[0] ?? null;
}
