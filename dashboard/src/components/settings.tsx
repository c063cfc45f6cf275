import { apiKey, keyAsked, keyRefused, setApiKey } from "../api/key";
import { LANGUAGES, type Language, language, setLanguage, texts } from "../i18n";
import { setTheme, type Theme, theme } from "../palette";

const THEMES: readonly Theme[] = ["system", "light", "dark"];

/** Language, colours and, where one is used, the key. */
export function Settings() {
  const t = texts().common;
  return (
    <div class="settings">
      <label>
        <span class="visually-hidden">{t.language}</span>
        <select
          value={language.value}
          onChange={(event) => setLanguage(event.currentTarget.value as Language)}
        >
          {LANGUAGES.map((entry) => (
            <option key={entry.language} value={entry.language}>
              {entry.name}
            </option>
          ))}
        </select>
      </label>
      <label>
        <span class="visually-hidden">{t.theme}</span>
        <select
          value={theme.value}
          onChange={(event) => setTheme(event.currentTarget.value as Theme)}
        >
          {THEMES.map((name) => (
            <option key={name} value={name}>
              {t.themes[name]}
            </option>
          ))}
        </select>
      </label>
      {keyRefused.value && (
        <button
          type="button"
          class="quiet"
          onClick={() => {
            keyAsked.value = true;
          }}
        >
          {t.key.show}
        </button>
      )}
      {apiKey.value !== null && (
        <button type="button" class="quiet" onClick={() => setApiKey(null)}>
          {t.key.forget}
        </button>
      )}
    </div>
  );
}
