import { useEffect, useRef, useState } from "preact/hooks";
import { apiKey, keyAsked, setApiKey } from "../api/key";
import { texts } from "../i18n";

/** Asks for an API key; it is shown when the service refused a request for want of one. */
export function KeyDialog() {
  const t = texts().common.key;
  const dialog = useRef<HTMLDialogElement>(null);
  const [entered, setEntered] = useState("");
  useEffect(() => dialog.current?.showModal(), []);

  function use(event: Event): void {
    event.preventDefault();
    const key = entered.trim();
    if (key !== "") {
      setApiKey(key);
    }
  }

  return (
    <dialog
      ref={dialog}
      aria-labelledby="key-title"
      onClose={() => {
        keyAsked.value = false;
      }}
    >
      <form onSubmit={use}>
        <h2 id="key-title">{t.title}</h2>
        <p>{t.explanation}</p>
        {apiKey.value !== null && <p class="error-text">{t.refused}</p>}
        <label>
          {t.label}
          <input
            type="password"
            autocomplete="off"
            spellcheck={false}
            value={entered}
            onInput={(event) => setEntered(event.currentTarget.value)}
          />
        </label>
        <p class="row">
          <button type="submit" class="primary">
            {t.use}
          </button>
          <button type="button" onClick={() => dialog.current?.close()}>
            {texts().common.close}
          </button>
        </p>
      </form>
    </dialog>
  );
}
