/** Frames per second while the mouse pans a Gantt chart. */

export interface Figures {
  frames: number;
  medianFramesPerS: number;
  worstFrameMs: number;
  /** The frame time that 95 of 100 frames keep to. */
  p95FrameMs: number;
}

const FRAMES = 120;
const STEP_PIXELS = 7;

export async function nextFrames(count: number): Promise<void> {
  for (let at = 0; at < count; at += 1) {
    await new Promise((resolve) => requestAnimationFrame(resolve));
  }
}

/** Zoom in by a factor from the whole, then drag to and fro, a step in every frame. */
export async function measurePan(canvas: HTMLElement, zoom: number): Promise<Figures> {
  const box = canvas.getBoundingClientRect();
  const y = box.top + 60;
  let x = box.left + box.width / 2;
  wheel(canvas, x, y, 20_000);
  await nextFrames(3);
  wheel(canvas, x, y, -Math.log(zoom) / 0.0015);
  await nextFrames(3);
  mouse(canvas, "pointerdown", x, y);
  const times: number[] = [];
  let before = performance.now();
  for (let frame = 0; frame < FRAMES; frame += 1) {
    const isForth = Math.floor(frame / 30) % 2 === 0;
    x += isForth ? STEP_PIXELS : -STEP_PIXELS;
    mouse(canvas, "pointermove", x, y);
    const now = await new Promise<number>((resolve) => requestAnimationFrame(resolve));
    times.push(now - before);
    before = now;
  }
  mouse(canvas, "pointerup", x, y);
  return figuresOf(times.slice(2));
}

function wheel(canvas: HTMLElement, x: number, y: number, deltaY: number): void {
  canvas.dispatchEvent(
    new WheelEvent("wheel", { deltaY, clientX: x, clientY: y, bubbles: true, cancelable: true }),
  );
}

function mouse(canvas: HTMLElement, type: string, x: number, y: number): void {
  // 1 is the mouse, which every page may capture.
  canvas.dispatchEvent(
    new PointerEvent(type, { clientX: x, clientY: y, bubbles: true, pointerId: 1, button: 0 }),
  );
}

function figuresOf(times: number[]): Figures {
  const sorted = [...times].sort((a, b) => a - b);
  const at = (share: number) => sorted[Math.floor(share * (sorted.length - 1))] ?? 0;
  return {
    frames: times.length,
    medianFramesPerS: 1000 / at(0.5),
    worstFrameMs: at(1),
    p95FrameMs: at(0.95),
  };
}
