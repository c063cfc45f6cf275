import { render } from "preact";
import { afterEach, beforeEach, expect, it } from "vitest";
import { measured, SortableTable } from "../../src/components/sortable-table";
import { setLanguage } from "../../src/i18n";

let page: HTMLElement;

beforeEach(() => {
  setLanguage("en");
  page = document.createElement("div");
  document.body.append(page);
});

afterEach(() => {
  render(null, page);
  page.remove();
});

it("writes a column in the unit of its largest value, which is in the heading", () => {
  const rows = [{ size: 2 * 1024 ** 3 }, { size: 512 * 1024 ** 2 }, { size: null }];
  render(
    <SortableTable<{ size: number | null }>
      caption="sizes"
      columns={[measured("bytes", "size", "Size", (row) => row.size)]}
      rows={rows}
      rowKey={(row) => String(row.size)}
    />,
    page,
  );
  expect(page.querySelector("th")?.textContent).toContain("Size GiB");
  const cells = [...page.querySelectorAll("td")].map((cell) => cell.textContent);
  expect(cells).toEqual(["2.0000", "0.5000", "–"]);
  expect(page.querySelector("td [title]")?.getAttribute("title")).toBe("2,147,483,648 B");
});
