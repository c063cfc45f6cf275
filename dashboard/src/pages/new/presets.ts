/** The models and GPUs that the service knows by name. */

import { signal } from "@preact/signals";
import { ask } from "../../api/client";
import { isObject, type Json, type JsonObject } from "./json-text";

export interface Preset {
  name: string;
  aliases: string[];
  source: string;
  fields: JsonObject;
  parameters?: number;
}

export interface Presets {
  models: Preset[];
  gpus: Preset[];
}

export const presets = signal<Presets | null>(null);
export const presetsError = signal<unknown>(null);

export async function loadPresets(signal: AbortSignal): Promise<void> {
  try {
    presets.value = (await ask<Presets>("presets", { signal })).body;
    presetsError.value = null;
  } catch (error) {
    if (!signal.aborted) {
      presetsError.value = error;
    }
  }
}

/** The preset that a name stands for, as the service reads names. */
export function presetNamed(known: readonly Preset[], name: Json | undefined): Preset | null {
  if (typeof name !== "string") {
    return null;
  }
  const wanted = [normalised(name), normalised(name.split("/").at(-1) ?? "")];
  return (
    known.find((preset) =>
      [preset.name, ...preset.aliases].some((own) => wanted.includes(normalised(own))),
    ) ?? null
  );
}

/** What a preset has in a field, to be shown where the field is empty. */
export function presetValue(preset: Preset | null, path: string): Json | undefined {
  const name = path.split(".").at(-1) ?? "";
  return preset && isObject(preset.fields) ? preset.fields[name] : undefined;
}

function normalised(name: string): string {
  return name.toLowerCase().replaceAll(/[\s_/-]/g, "");
}
