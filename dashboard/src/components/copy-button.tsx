import { useState } from "preact/hooks";
import { texts } from "../i18n";

const SHOWN_MS = 2000;

/** Copies a text, which is made when it is wanted. */
export function CopyButton(props: { text: () => string; label: string }) {
  const t = texts().common;
  const [isCopied, setCopied] = useState(false);
  async function copy(): Promise<void> {
    await copyText(props.text());
    setCopied(true);
    setTimeout(() => setCopied(false), SHOWN_MS);
  }
  return (
    <button type="button" class="quiet" onClick={copy} aria-label={`${t.copy}: ${props.label}`}>
      <span aria-live="polite">{isCopied ? t.copied : t.copy}</span>
    </button>
  );
}

/** Over plain HTTP from another machine browsers give no clipboard, but copy what is selected. */
async function copyText(text: string): Promise<void> {
  if (navigator.clipboard) {
    await navigator.clipboard.writeText(text);
    return;
  }
  const field = document.createElement("textarea");
  field.value = text;
  field.className = "visually-hidden";
  document.body.append(field);
  field.select();
  document.execCommand("copy");
  field.remove();
}
