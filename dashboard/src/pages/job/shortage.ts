/** Why no plan fits, of whichever kind of job, in one form. */

import type { ResultDocument } from "../../api/types";
import type { Messages } from "../../i18n";
import { ranges } from "../../number-runs";

type Texts = Messages["job"]["infeasible"];

export interface Shortage {
  summary: string;
  /** Who is short: what is needed and what there is. */
  rows: readonly ShortRow[];
  /** What `neededBytes` of the rows is. */
  needed: string;
  parts: readonly { what: string; bytes: number }[];
  facts: readonly { name: string; value: string }[];
  remedies: readonly Way[];
}

export interface ShortRow {
  where: string;
  neededBytes: number | null;
  limitBytes: number | null;
  /** With this limit it would do; null where that is what is needed, or is not known. */
  smallestBytes: number | null;
}

export interface Way {
  change: string;
  fits: boolean | null;
  detail: string;
  basis: string;
}

type ShowBytes = (bytes: number) => string;

export function shortageOf(
  document: ResultDocument,
  kind: string,
  t: Texts,
  bytes: ShowBytes,
): Shortage {
  switch (kind) {
    case "sharding":
      return shardingShortage(document, t, bytes);
    case "training":
      return trainingShortage(document, t);
    default:
      return pipelineShortage(document, t);
  }
}

function pipelineShortage(document: ResultDocument, t: Texts): Shortage {
  const devices: number[] = document.devices ?? [];
  const hosts: ResultDocument[] = document.hosts ?? [];
  const rows = devices.map((device, index) => ({
    where: t.device(device),
    neededBytes: document.bytes?.[index] ?? null,
    limitBytes: document.limit_bytes?.[index] ?? null,
    smallestBytes: document.smallest_limit_bytes?.[index] ?? null,
  }));
  const hostRows = hosts.map((host) => ({
    where: t.host(host.host),
    neededBytes: null,
    limitBytes: host.limit_bytes ?? null,
    smallestBytes: host.smallest_limit_bytes ?? null,
  }));
  const microBatches: number[] = document.micro_batches ?? [];
  return {
    summary: document.summary ?? t.title,
    rows: [...rows, ...hostRows],
    needed: t.unassisted,
    parts: [],
    facts: given([
      [t.placement, document.placement],
      [t.microBatches, microBatches.length > 0 ? ranges(microBatches) : null],
    ]),
    remedies: waysOf(document),
  };
}

function shardingShortage(document: ResultDocument, t: Texts, bytes: ShowBytes): Shortage {
  const limit: number = document.device_memory_bytes;
  const least: number = document.least_memory_bytes;
  const ways: ResultDocument[] = document.remedies ?? [];
  const fewest = document.smallest_devices;
  const certainty = document.fewer_devices_ruled_out ? t.ruledOut : t.notRuledOut;
  return {
    summary: t.summarySharding(bytes(least), bytes(limit)),
    rows: [{ where: t.eachDevice, neededBytes: least, limitBytes: limit, smallestBytes: null }],
    needed: t.needed,
    parts: givenParts([
      [t.states, document.least_states_bytes],
      [t.activations, document.least_activation_bytes],
    ]),
    facts: given([
      [t.culprit, document.culprit],
      [
        t.smallestDevices,
        fewest != null
          ? `${fewest} (${certainty})`
          : document.devices_searched != null && t.noneUpTo(document.devices_searched),
      ],
    ]),
    remedies: ways.map((way) => ({
      change: String(way.change),
      fits: way.fits ?? null,
      detail: [
        t.least(bytes(way.memory_bytes)),
        way.predicted_peak_bytes != null ? t.peak(bytes(way.predicted_peak_bytes)) : "",
      ]
        .filter(Boolean)
        .join("; "),
      basis: "",
    })),
  };
}

function trainingShortage(document: ResultDocument, t: Texts): Shortage {
  const fewest = document.smallest_gpus;
  return {
    summary: document.summary ?? t.title,
    rows: [
      {
        where: t.rank(document.rank ?? 0),
        neededBytes: document.bytes ?? null,
        limitBytes: document.limit_bytes ?? null,
        smallestBytes: null,
      },
    ],
    needed: t.needed,
    parts: document.parts ?? [],
    facts: given([
      [t.culprit, document.limited_by],
      [
        t.smallestGpus,
        fewest ?? (document.gpus_searched != null && t.noneUpTo(document.gpus_searched)),
      ],
      [t.detail, document.offload],
    ]),
    remedies: waysOf(document),
  };
}

function waysOf(document: ResultDocument): Way[] {
  const ways: ResultDocument[] = document.remedies ?? [];
  return ways.map((way) => ({
    change: String(way.remedy ?? "").replaceAll("_", " "),
    fits: way.fits ?? null,
    detail: way.detail ?? "",
    basis: way.basis ?? "",
  }));
}

function given(facts: [string, unknown][]): { name: string; value: string }[] {
  return facts
    .filter(([, value]) => value !== null && value !== undefined && value !== false)
    .map(([name, value]) => ({ name, value: String(value) }));
}

function givenParts(parts: [string, number | undefined][]): { what: string; bytes: number }[] {
  return parts.flatMap(([what, bytes]) => (bytes === undefined ? [] : [{ what, bytes }]));
}
