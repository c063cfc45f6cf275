import { render } from "preact";
import { act } from "preact/test-utils";
import { afterEach, beforeEach, expect, it } from "vitest";
import { takeDraftText } from "../../src/draft";
import { setLanguage } from "../../src/i18n";
import { Infeasible } from "../../src/views/infeasible/panel";

const GIB = 2 ** 30;
const DOCUMENT = {
  summary: "No schedule fits.",
  devices: [1],
  micro_batches: [0, 1],
  limit_bytes: [GIB],
  smallest_limit_bytes: [2 * GIB],
  bytes: [4 * GIB],
  remedies: [
    {
      remedy: "device_memory",
      fits: true,
      detail: "Fits with 2.00 GiB on device 1.",
      basis: "computed",
      request_changes: { "problem.devices.1.activation_memory_bytes": 2 * GIB },
    },
    { remedy: "offload", fits: false, detail: "stage 3", basis: "exact", request_changes: null },
  ],
};
const REQUEST = { problem: { devices: [{}, { activation_memory_bytes: GIB }] } };

let page: HTMLElement;

beforeEach(() => {
  page = document.createElement("div");
  document.body.append(page);
});

afterEach(async () => {
  await act(async () => setLanguage("en"));
  render(null, page);
  page.remove();
});

async function show(request: typeof REQUEST | null): Promise<void> {
  await act(async () =>
    render(<Infeasible document={DOCUMENT} kind="pipeline" request={request} />, page),
  );
}

it("says what is lacking and marks the service's own words as English", async () => {
  await show(null);
  expect(page.textContent).toContain("on device 1 it takes at least 2.000 GiB");
  expect(page.querySelector("a")).toBeNull();
  await act(async () => setLanguage("zh"));
  expect(page.textContent).toContain("微批次 0–1 放不进显存");
  expect(page.textContent).toContain("增加设备显存");
  const english = [...page.querySelectorAll("[lang=en]")].map((part) => part.textContent);
  expect(english).toContain("Fits with 2.00 GiB on device 1.");
});

it("leads to the form with the request changed so that it fits", async () => {
  await show(REQUEST);
  const links = [...page.querySelectorAll("a")];
  expect(links.map((link) => link.getAttribute("href"))).toEqual(["#/new?draft=1"]);
  await act(async () => links[0]?.click());
  expect(JSON.parse(takeDraftText() ?? "null")).toEqual({
    kind: "pipeline",
    body: { problem: { devices: [{}, { activation_memory_bytes: 2 * GIB }] } },
  });
  expect(takeDraftText()).toBeNull();
});
