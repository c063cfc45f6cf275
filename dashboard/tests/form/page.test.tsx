import { render } from "preact";
import { act } from "preact/test-utils";
import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { NewPage } from "../../src/pages/new";
import { form, openBody } from "../../src/pages/new/store";

const REFUSAL = {
  type: "about:blank",
  title: "The request is not valid.",
  status: 422,
  code: "invalid_request",
  detail: "",
  errors: [{ path: "training.micro_batches", message: "is too large.", remedy: "Give fewer." }],
};
const RESOLVED = {
  options: {},
  assumptions: [],
  static_shortage: null,
  placements: [
    {
      placement: "one_chunk",
      problem: { micro_batches: 3, devices: [{}], stages: [] },
      feasible: true,
      infeasibility: null,
      lower_bound_ns: 5_000_000,
      bounds: [{ name: "critical path", value_ns: 5_000_000 }],
    },
  ],
};

let page: HTMLElement;
let isRefused: boolean;

beforeEach(async () => {
  isRefused = false;
  vi.stubGlobal("fetch", async (address: string) => {
    const url = String(address);
    if (url.includes("validate_only")) {
      return json(isRefused ? REFUSAL : RESOLVED, isRefused ? 422 : 200);
    }
    return json(url.includes("/jobs") ? { jobs: [], next_cursor: null } : [], 200);
  });
  page = document.createElement("div");
  document.body.append(page);
  openBody("pipeline", { model: "GPT-7B", cluster: "8xH100", training: { micro_batches: 8 } });
  await act(async () => render(<NewPage />, page));
});

afterEach(() => {
  render(null, page);
  page.remove();
  vi.unstubAllGlobals();
});

it("does not send while the service refuses a field, and says which beside the button", async () => {
  await settled(() => expect(page.textContent).toContain("critical path"));
  expect(submit().disabled).toBe(false);
  isRefused = true;
  await type("field-training-micro_batches", "9999");
  await settled(() => expect(submit().disabled).toBe(true));
  const reason = document.getElementById(submit().getAttribute("aria-describedby") ?? "");
  expect(reason?.textContent).toBe("First mend: Micro-batches.");
  expect(reason?.parentElement).toBe(submit().parentElement);
});

it("does not send while a field cannot be read", async () => {
  await type("field-training-micro_batches", "many");
  expect(submit().disabled).toBe(true);
  expect(page.textContent).toContain("First mend: Micro-batches.");
});

it("shows nothing of what was before when a wrong file is opened, and says what is wrong", async () => {
  await settled(() => expect(page.textContent).toContain("critical path"));
  isRefused = true;
  await open('{"foo": 1}');
  await settled(() => expect(page.textContent).toContain("neither a request nor a problem"));
  expect(page.querySelector("[role=alert]")?.textContent).toContain("wrong.json");
  expect(page.querySelector("[role=alert]")?.textContent).toContain("foo");
  expect(page.textContent).not.toContain("critical path");
  expect(form.value.sheets.pipeline.body).toEqual({ foo: 1 });
});

it("shows no fields of what was before when a file is no JSON", async () => {
  await settled(() => expect(page.textContent).toContain("critical path"));
  await open('{"foo": ');
  await settled(() => expect(page.querySelector("[role=alert]")).not.toBeNull());
  expect(page.textContent).not.toContain("critical path");
  expect(form.value.sheets.pipeline.body).toEqual({});
  expect(submit().disabled).toBe(true);
});

function json(body: unknown, status: number): Response {
  return new Response(JSON.stringify(body), {
    status,
    headers: { "Content-Type": status < 400 ? "application/json" : "application/problem+json" },
  });
}

function submit(): HTMLButtonElement {
  const button = page.querySelector<HTMLButtonElement>(".form-submit button.primary");
  if (!button) {
    throw new Error("there is no button");
  }
  return button;
}

async function type(id: string, text: string): Promise<void> {
  const input = document.getElementById(id) as HTMLInputElement;
  await act(async () => {
    input.value = text;
    input.dispatchEvent(new Event("input", { bubbles: true }));
  });
}

async function open(text: string): Promise<void> {
  const input = page.querySelector<HTMLInputElement>("input[type=file]");
  const file = new File([text], "wrong.json", { type: "application/json" });
  await act(async () => {
    Object.defineProperty(input, "files", { value: [file], configurable: true });
    input?.dispatchEvent(new Event("change", { bubbles: true }));
  });
}

async function settled(check: () => void): Promise<void> {
  await vi.waitFor(async () => {
    await act(async () => {});
    check();
  }, 5000);
}
