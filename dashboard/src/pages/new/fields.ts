/** Which fields the form has for each kind of plan, in the order in which they are shown. */

import type { Kind } from "../../api/types";
import { getAt } from "./body";
import type { Field, Section } from "./field";
import { cluster, counted } from "./fields-cluster";
import { model, transformer } from "./fields-model";
import {
  job,
  judging,
  schedulingSolver,
  search,
  shardingSolver,
  trainingSolver,
} from "./fields-solving";
import { fixedTraining, measured, shardingTraining, training } from "./fields-training";
import type { JsonObject } from "./json-text";

export function sectionsOf(kind: Kind, body: JsonObject): readonly Section[] {
  switch (kind) {
    case "pipeline":
      return isMeasured(body)
        ? [measured(), schedulingSolver(), job()]
        : [model(body), cluster("cluster", body), training(), schedulingSolver(), job()];
    case "sharding":
      return [
        ...(isGraph(body) ? [] : [transformer(body)]),
        isCounted(body) ? counted() : cluster("devices", body),
        shardingTraining(),
        judging(),
        shardingSolver(),
        job(),
      ];
    case "training":
      return [
        model(body),
        cluster("cluster", body),
        fixedTraining(),
        search(),
        trainingSolver(),
        job(),
      ];
  }
}

export function fieldsOf(kind: Kind, body: JsonObject): readonly Field[] {
  return sectionsOf(kind, body).flatMap((section) => [...section.main, ...section.more]);
}

export function isMeasured(body: JsonObject): boolean {
  return body.problem !== undefined;
}

export function isGraph(body: JsonObject): boolean {
  return body.graph !== undefined;
}

/** Whether only a number of devices is given. */
export function isCounted(body: JsonObject): boolean {
  return getAt(body, "devices.count") !== undefined;
}
