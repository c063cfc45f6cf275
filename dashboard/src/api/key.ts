/** The API key of this tab. It is kept until the tab is closed, and never put into an address. */

import { signal } from "@preact/signals";
import { readStored, store } from "../storage";

const NAME = "loadmaster-api-key";

export const apiKey = signal<string | null>(readStored("session", NAME));

/** Whether the service has refused a request for want of a valid key since the last was given. */
export const keyRefused = signal(false);

/** Whether the key is asked for now; whoever puts that off can ask for it again. */
export const keyAsked = signal(false);

/** The service wants a key, or another one. */
export function refuseKey(): void {
  if (!keyRefused.value) {
    keyRefused.value = true;
    keyAsked.value = true;
  }
}

/** How often another key was given, or the key forgotten: what was asked for is then asked again. */
export const keyChanges = signal(0);

export function setApiKey(key: string | null): void {
  store("session", NAME, key);
  apiKey.value = key;
  keyRefused.value = false;
  keyAsked.value = false;
  keyChanges.value += 1;
}
