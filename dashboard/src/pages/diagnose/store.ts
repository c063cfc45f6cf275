/** What somebody fills in to have a training diagnosed, and what comes back. */

import { signal } from "@preact/signals";
import { ask } from "../../api/client";
import type { Diagnosis } from "../../api/types";
import { type JsonFault, type JsonObject, readJsonObject, writeJson } from "../new/json-text";
import { withDocument } from "./known";

export type Notice =
  | { kind: "leftOut"; names: readonly string[] }
  | { kind: "notKnown" | "unreadable"; file: string };

export class DiagnoseStore {
  readonly symptoms = signal<ReadonlySet<string>>(new Set());
  /** What is known, as it is typed; empty for nothing. */
  readonly text = signal("");
  readonly fault = signal<JsonFault | null>(null);
  readonly notices = signal<readonly Notice[]>([]);
  readonly isSending = signal(false);
  readonly error = signal<unknown>(null);
  readonly answer = signal<Diagnosis | null>(null);
  /** What the text says, as of the last time that it could be read. */
  readonly body = signal<JsonObject>({});

  tick(symptom: string, isTicked: boolean): void {
    const next = new Set(this.symptoms.value);
    isTicked ? next.add(symptom) : next.delete(symptom);
    this.symptoms.value = next;
  }

  type(text: string): void {
    this.text.value = text;
    this.fault.value = null;
    if (text.trim() === "") {
      this.body.value = {};
      return;
    }
    const read = readText(text);
    if ("fault" in read) {
      this.fault.value = read.fault;
    } else {
      this.body.value = read.document;
    }
  }

  clear(): void {
    this.type("");
    this.notices.value = [];
  }

  /** Add a document, given as a text, to what is known. */
  add(text: string, file: string): void {
    const document = parsed(text);
    const added = document === undefined ? null : withDocument(this.body.value, document);
    if (added === null) {
      const kind = document === undefined ? "unreadable" : "notKnown";
      this.notices.value = [...this.notices.value, { kind, file }];
      return;
    }
    const { symptoms, ...body } = added.body;
    if (Array.isArray(symptoms)) {
      this.symptoms.value = new Set(symptoms.filter((one) => typeof one === "string"));
    }
    this.type(writeJson(body));
    if (added.leftOut.length > 0) {
      this.notices.value = [...this.notices.value, { kind: "leftOut", names: added.leftOut }];
    }
  }

  async diagnose(): Promise<void> {
    this.isSending.value = true;
    this.error.value = null;
    try {
      const body = { ...this.body.value, symptoms: [...this.symptoms.value] };
      this.answer.value = (await ask<Diagnosis>("diagnoses", { method: "POST", body })).body;
    } catch (error) {
      this.answer.value = null;
      this.error.value = error;
    } finally {
      this.isSending.value = false;
    }
  }
}

/** A pasted document may also be a list of iterations, or a bare problem. */
function readText(text: string): { document: JsonObject } | { fault: JsonFault } {
  const read = text.trimStart().startsWith("[") ? null : readJsonObject(text);
  if (read !== null && "fault" in read) {
    return read;
  }
  const document = read === null ? parsed(text) : read.document;
  const added = withDocument({}, document);
  if (added !== null && added.leftOut.length === 0) {
    return { document: added.body };
  }
  return read ?? readJsonObject(text);
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text.replace(/^\ufeff/, ""));
  } catch {
    return undefined;
  }
}
