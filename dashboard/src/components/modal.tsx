import type { ComponentChildren } from "preact";
import { useEffect, useId, useRef } from "preact/hooks";

interface Props {
  title: string;
  children: ComponentChildren;
  onClose: () => void;
}

/** A dialog above the page. Escape closes it, and the focus goes back to where it was. */
export function Modal(props: Props) {
  const dialog = useRef<HTMLDialogElement>(null);
  const title = useId();
  useEffect(() => {
    const before = document.activeElement;
    dialog.current?.showModal();
    return () => {
      if (before instanceof HTMLElement && before.isConnected) {
        before.focus();
      }
    };
  }, []);
  return (
    <dialog ref={dialog} aria-labelledby={title} onClose={props.onClose}>
      <h2 id={title}>{props.title}</h2>
      {props.children}
    </dialog>
  );
}
