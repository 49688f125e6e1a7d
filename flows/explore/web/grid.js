// A table that the server sorts and pages.

import { el, number } from "./dom.js";
import * as state from "./state.js";

export const PAGE = 100;

// `columns`: [{name, unit, doc, kind}]; `cell(column, row)` gives a cell's content, `open(row)`
// what a click does.
export function grid({ columns, rows, total, label, cell, open, chosen, key, before }) {
  const sort = state.get("sort");
  const body = el("tbody", {}, rows.map((row) => {
    const line = el("tr", { "data-key": key(row), "aria-selected": chosen(row) ? "true" : null },
      before ? el("td", { class: "tick" }, before(row)) : null,
      columns.map((column) => el("td", { class: `${column.kind === "number" ? "n" : "t"} c-${column.name}`, "data-name": column.name.replaceAll("_", " ") }, cell(column, row))));
    line.addEventListener("click", (event) => {
      if (!event.target.closest("input, a, .play") && !String(getSelection())) open(row);
    });
    return line;
  }));
  const head = columns.map((column) => {
    const way = sort === column.name ? "ascending" : sort === `-${column.name}` ? "descending" : null;
    const next = way === "ascending" ? `-${column.name}` : way === "descending" ? null : column.name;
    return el("th", { scope: "col", class: column.kind === "number" ? "n" : "t", "aria-sort": way ?? "none" },
      el("button", { type: "button", title: [column.doc, column.unit && column.unit !== "1" ? `(${column.unit})` : ""].filter(Boolean).join(" "),
        onclick: () => state.set({ sort: next }) },
      column.name.replaceAll("_", " "), way ? (way === "ascending" ? " ↑" : " ↓") : ""));
  });
  return el("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": label },
    el("table", { class: "grid" },
      el("thead", {}, el("tr", {}, before ? el("th", { scope: "col" }, el("span", { class: "unseen" }, "selected")) : null, head)),
      body),
    total === 0 ? el("p", { class: "none" }, "Nothing matches. Remove a filter at the side, or change the search.") : null);
}

export function pages(total) {
  const page = Number(state.get("page", "0"));
  const last = Math.max(Math.ceil(total / PAGE) - 1, 0);
  const to = (number) => () => state.set({ page: number || null });
  if (!last) return null;
  return el("nav", { class: "pages", "aria-label": "Pages" },
    el("button", { type: "button", disabled: page <= 0, onclick: to(0) }, "first"),
    el("button", { type: "button", disabled: page <= 0, onclick: to(page - 1) }, "previous"),
    el("span", {}, `page ${number(page + 1)} of ${number(last + 1)}`),
    el("button", { type: "button", disabled: page >= last, onclick: to(page + 1) }, "next"),
    el("button", { type: "button", disabled: page >= last, onclick: to(last) }, "last"));
}

export const pageOf = () => ({ limit: PAGE, offset: PAGE * Number(state.get("page", "0")) });
