/** Why no plan fits, of whichever kind of job, in one form. */

import type { ResultDocument } from "../../api/types";
import type { Messages } from "../../i18n";
import { serviceName } from "../../i18n/service-text";
import { ranges } from "../../number-runs";
import type { Json } from "../../pages/new/json-text";

export interface Shortage {
  summary: string;
  /** Whether the summary is the service's own sentence, which is English. */
  isEnglish: boolean;
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
  /** Whether the detail is in the service's own words. */
  isEnglish: boolean;
  /** Values to put into the request, by path; null: leave the field out. */
  requestChanges: Record<string, Json> | null;
}

type ShowBytes = (bytes: number) => string;

export function shortageOf(
  document: ResultDocument,
  kind: string,
  messages: Messages,
  bytes: ShowBytes,
): Shortage {
  switch (kind) {
    case "sharding":
      return shardingShortage(document, messages, bytes);
    case "training":
      return trainingShortage(document, messages);
    default:
      return pipelineShortage(document, messages, bytes);
  }
}

function pipelineShortage(
  document: ResultDocument,
  messages: Messages,
  bytes: ShowBytes,
): Shortage {
  const t = messages.job.infeasible;
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
  const said = pipelineSummary(document, messages, bytes);
  return {
    summary: said ?? document.summary ?? t.title,
    isEnglish: said === null && document.summary !== undefined,
    rows: [...rows, ...hostRows],
    needed: t.unassisted,
    parts: [],
    facts: given([
      [t.placement, document.placement && serviceName("placement", document.placement)],
      [t.microBatches, microBatches.length > 0 ? ranges(microBatches) : null],
    ]),
    remedies: waysOf(document),
  };
}

/** Who is short of what, from the figures; null where these are not all there. */
export function pipelineSummary(
  document: ResultDocument,
  messages: Messages,
  bytes: ShowBytes,
): string | null {
  const t = messages.service;
  const {
    devices = [],
    bytes: needed = [],
    limit_bytes: limits = [],
    smallest_limit_bytes: smallest = [],
    micro_batches: microBatches = [],
    hosts = [],
  } = document;
  if (devices.length === 0 || smallest.length < devices.length || limits.includes(null)) {
    return null;
  }
  const groups = alikeDevices(devices, needed, smallest, limits);
  if (microBatches.length === 0) {
    return groups
      .map((own) =>
        t.statesShort(
          ranges(own.devices),
          bytes(own.neededBytes),
          bytes(own.smallestBytes),
          bytes(own.limitBytes),
        ),
      )
      .join(" ");
  }
  const parts = [
    ...groups.map((own) =>
      t.deviceShort(ranges(own.devices), bytes(own.smallestBytes), bytes(own.limitBytes)),
    ),
    ...hosts.map((host: ResultDocument) =>
      t.hostShort(host.host, bytes(host.smallest_limit_bytes), bytes(host.limit_bytes)),
    ),
  ];
  return t.noMicroBatch(microBatches.length, ranges(microBatches), parts.join(t.partsMark));
}

interface Alike {
  devices: number[];
  neededBytes: number;
  smallestBytes: number;
  limitBytes: number;
}

/** Devices with the same figures together. */
function alikeDevices(
  devices: readonly number[],
  needed: readonly number[],
  smallest: readonly number[],
  limits: readonly number[],
): Alike[] {
  const groups = new Map<string, Alike>();
  devices.forEach((device, index) => {
    const figures = {
      neededBytes: needed[index] ?? 0,
      smallestBytes: smallest[index] ?? 0,
      limitBytes: limits[index] ?? 0,
    };
    const key = Object.values(figures).join();
    const group = groups.get(key) ?? { devices: [], ...figures };
    group.devices.push(device);
    groups.set(key, group);
  });
  return [...groups.values()];
}

function shardingShortage(
  document: ResultDocument,
  messages: Messages,
  bytes: ShowBytes,
): Shortage {
  const t = messages.job.infeasible;
  const limit: number = document.device_memory_bytes;
  const least: number = document.least_memory_bytes;
  const ways: ResultDocument[] = document.remedies ?? [];
  const fewest = document.smallest_devices;
  const certainty = document.fewer_devices_ruled_out ? t.ruledOut : t.notRuledOut;
  return {
    summary: t.summarySharding(bytes(least), bytes(limit)),
    isEnglish: false,
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
      change: changeOf(way),
      fits: way.fits ?? null,
      detail: [
        t.least(bytes(way.memory_bytes)),
        way.predicted_peak_bytes != null ? t.peak(bytes(way.predicted_peak_bytes)) : "",
        BY_PROGRAM.has(way.remedy) ? t.byProgram : "",
      ]
        .filter(Boolean)
        .join("; "),
      basis: "",
      isEnglish: false,
      requestChanges: changesOf(way),
    })),
  };
}

/** What the training program does, and no field of a request plans with. */
const BY_PROGRAM = new Set(["checkpointing", "optimizer_in_host_memory", "together"]);

function trainingShortage(document: ResultDocument, messages: Messages): Shortage {
  const t = messages.job.infeasible;
  const fewest = document.smallest_gpus;
  const parts: { what: string; bytes: number }[] = document.parts ?? [];
  return {
    summary: document.summary ?? t.title,
    isEnglish: document.summary !== undefined,
    rows: [
      {
        where: t.rank(document.rank ?? 0),
        neededBytes: document.bytes ?? null,
        limitBytes: document.limit_bytes ?? null,
        smallestBytes: null,
      },
    ],
    needed: t.needed,
    parts: parts.map(({ what, bytes }) => ({ what: serviceName("memoryPart", what), bytes })),
    facts: given([
      [t.culprit, document.limited_by && serviceName("memoryPart", document.limited_by)],
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
    change: changeOf(way),
    fits: way.fits ?? null,
    detail: way.detail ?? "",
    basis: way.basis ?? "",
    isEnglish: true,
    requestChanges: changesOf(way),
  }));
}

/** What to ask again; not what is known to fit no better. */
function changesOf(way: ResultDocument): Way["requestChanges"] {
  return way.fits === false ? null : (way.request_changes ?? null);
}

/** The kind of the change; answers of older versions on sharding have it in words only. */
function changeOf(way: ResultDocument): string {
  const { remedy } = way;
  return remedy === undefined ? String(way.change ?? "") : serviceName("remedy", remedy);
}

function given(facts: [string, unknown][]): { name: string; value: string }[] {
  return facts
    .filter(([, value]) => value !== null && value !== undefined && value !== false)
    .map(([name, value]) => ({ name, value: String(value) }));
}

function givenParts(parts: [string, number | undefined][]): { what: string; bytes: number }[] {
  return parts.flatMap(([what, bytes]) => (bytes === undefined ? [] : [{ what, bytes }]));
}
