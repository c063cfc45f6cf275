import { render } from "preact";
import { act } from "preact/test-utils";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { WithContents } from "../../src/components/contents";

let page: HTMLElement;

beforeEach(() => {
  page = document.createElement("div");
  document.body.append(page);
  Element.prototype.scrollIntoView = () => {};
});

afterEach(() => {
  render(null, page);
  page.remove();
});

async function show(names: readonly string[]) {
  await act(async () => {
    render(
      <WithContents>
        {names.map((name) => (
          <h2 key={name}>{name}</h2>
        ))}
        <details>
          <summary>
            <h2>folded</h2>
          </summary>
        </details>
        <WithContents isPart>
          {["p", "q", "r", "s"].map((name) => (
            <h2 key={name}>{name}</h2>
          ))}
        </WithContents>
      </WithContents>,
      page,
    );
  });
}

const listed = () =>
  [...page.querySelectorAll("nav")].map((nav) =>
    [...nav.querySelectorAll("button")].map((one) => one.textContent),
  );

describe("the contents of a page", () => {
  it("are its headings, those of a part in a list of its own", async () => {
    await show(["a", "b", "c"]);
    expect(listed()).toEqual([
      ["a", "b", "c", "folded"],
      ["p", "q", "r", "s"],
    ]);
  });

  it("are left out where they are few", async () => {
    await show(["a"]);
    expect(listed()).toEqual([["p", "q", "r", "s"]]);
  });

  it("lead to a heading, which has the focus then, and unfold it", async () => {
    await show(["a", "b", "c"]);
    const last = [...page.querySelectorAll("nav button")].find(
      (one) => one.textContent === "folded",
    );
    (last as HTMLButtonElement).click();
    expect(document.activeElement?.textContent).toBe("folded");
    expect(page.querySelector("details")?.open).toBe(true);
  });
});
