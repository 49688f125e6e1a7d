// The table of recordings.

import * as api from "./api.js";
import { amount, el, hours, number } from "./dom.js";
import { link } from "./clips.js";
import { grid, pageOf, pages } from "./grid.js";
import * as state from "./state.js";

export async function draw(node, about) {
  const known = about.recording_columns;
  const sort = state.get("sort").replace("-", "");
  const without = known.some((column) => column.name === sort) ? [] : ["sort"];
  const answer = await api.get("recordings", state.query(pageOf(), { without }), "main");
  const columns = known.filter((column) => column.name !== "recording" && answer.rows.some((row) => row[column.name] !== null));
  node.replaceChildren(
    el("div", { class: "bar" }, el("h2", {}, `${amount(answer.total, "recording")}, ${hours(answer.hours)}`), el("span", { class: "grow" }), pages(answer.total)),
    grid({
      columns: [known[0], ...columns], rows: answer.rows, total: answer.total, label: "Recordings",
      key: (row) => row.recording, chosen: () => false,
      open: (row) => { location.hash = link(row.recording); },
      cell: (column, row) => {
        const value = row[column.name];
        if (column.name === "recording") return el("a", { href: link(value) }, value);
        if (column.name === "kept") return value === null ? "" : `${Math.round(value * 100)} %`;
        return column.kind === "number" ? number(value) : el("bdi", {}, value ?? "");
      },
    }));
}
