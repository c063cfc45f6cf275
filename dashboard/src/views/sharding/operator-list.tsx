import { useEffect, useId, useRef, useState } from "preact/hooks";
import { texts } from "../../i18n";
import { chartColours, isDark } from "../../palette";
import { SplitBadge } from "./glyph";
import type { OperatorRow } from "./model";

interface Props {
  operators: readonly OperatorRow[];
  selected: number | null;
  onSelect: (index: number) => void;
}

/** The operators to choose from, by a click or by arrow keys; one stop for the tab key. */
export function OperatorList(props: Props) {
  const t = texts().sharding.graph;
  const colours = chartColours(isDark.value);
  const id = useId();
  const list = useRef<HTMLDivElement>(null);
  const [sought, setSought] = useState("");
  const shown = props.operators.filter((one) =>
    one.name.toLowerCase().includes(sought.trim().toLowerCase()),
  );

  useEffect(() => {
    const option = list.current?.querySelector('[aria-selected="true"]');
    scrollWithin(list.current, option);
  }, [props.selected]);

  function onKeyDown(event: KeyboardEvent): void {
    const at = shown.findIndex((one) => one.index === props.selected);
    const target = shown[stepTo(event.key, at, shown.length)];
    if (target) {
      event.preventDefault();
      props.onSelect(target.index);
    }
  }

  return (
    <div class="shard-list">
      <label>
        <span class="visually-hidden">{t.filter}</span>
        <input
          type="search"
          placeholder={t.filter}
          value={sought}
          onInput={(event) => setSought(event.currentTarget.value)}
        />
      </label>
      {shown.length === 0 ? (
        <p class="faint">{t.noMatch}</p>
      ) : (
        <div
          ref={list}
          class="shard-options"
          role="listbox"
          aria-label={t.operators}
          tabIndex={0}
          aria-activedescendant={props.selected === null ? undefined : `${id}-${props.selected}`}
          onKeyDown={onKeyDown}
        >
          {shown.map((one) => (
            // biome-ignore lint/a11y/useKeyWithClickEvents: the list itself hears the keys.
            // biome-ignore lint/a11y/useFocusableInteractive: the list keeps the focus.
            <div
              key={one.index}
              id={`${id}-${one.index}`}
              role="option"
              aria-selected={one.index === props.selected}
              onClick={() => props.onSelect(one.index)}
            >
              <span class="shard-list-name">{one.name}</span>
              {one.layers > 1 && <span class="faint">{t.layers(one.layers)}</span>}
              <SplitBadge split={one.split} strategy={one.strategy} colours={colours} />
            </div>
          ))}
        </div>
      )}
    </div>
  );
}

/** The place that a key leads to; -1 where it leads nowhere. */
export function stepTo(key: string, at: number, length: number): number {
  switch (key) {
    case "ArrowDown":
      return Math.min(length - 1, at + 1);
    case "ArrowUp":
      return Math.max(0, at - 1);
    case "Home":
      return 0;
    case "End":
      return length - 1;
    default:
      return -1;
  }
}

/** Scroll the list only: `scrollIntoView` would move the page too. */
function scrollWithin(frame: HTMLElement | null, element: Element | null | undefined): void {
  if (!frame || !(element instanceof HTMLElement)) {
    return;
  }
  const top = element.offsetTop;
  if (top < frame.scrollTop) {
    frame.scrollTop = top;
  } else if (top + element.offsetHeight > frame.scrollTop + frame.clientHeight) {
    frame.scrollTop = top + element.offsetHeight - frame.clientHeight;
  }
}
