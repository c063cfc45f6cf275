/** What the keys do while the chart has the focus. */

import { type GanttState, PAN_SHARE, ZOOM_STEP } from "./state";

/** Whether the key meant something here. */
export function handleKey(
  event: Pick<KeyboardEvent, "key" | "shiftKey" | "ctrlKey" | "metaKey" | "altKey">,
  state: GanttState,
): boolean {
  if (event.ctrlKey || event.metaKey || event.altKey) {
    return false;
  }
  const action = (event.shiftKey ? shifted(state) : {})[event.key] ?? plain(state)[event.key];
  action?.();
  return action !== undefined;
}

type Actions = Record<string, () => void>;

function shifted(state: GanttState): Actions {
  return {
    ArrowLeft: () => state.pan(-PAN_SHARE),
    ArrowRight: () => state.pan(PAN_SHARE),
  };
}

function plain(state: GanttState): Actions {
  return {
    ArrowLeft: () => state.selectBeside(-1),
    ArrowRight: () => state.selectBeside(1),
    ArrowUp: () => state.selectAcross(-1),
    ArrowDown: () => state.selectAcross(1),
    "+": () => state.zoom(1 / ZOOM_STEP),
    "=": () => state.zoom(1 / ZOOM_STEP),
    "-": () => state.zoom(ZOOM_STEP),
    "0": () => state.showAll(),
    Home: () => state.selectEnd("first"),
    End: () => state.selectEnd("last"),
    Enter: () => {
      if (state.selected.value !== null) {
        state.toggleMicroBatch(state.selected.value);
      }
    },
    Escape: () => state.clear(),
  };
}
