// One SELECT on the version's tables; the server bounds what it may take.

import * as api from "./api.js";
import { el, number } from "./dom.js";
import * as state from "./state.js";

const EXAMPLES = {
  "hours by reason": "SELECT outcome, stage, reason, count(*) AS clips, round(sum(seconds) / 3600, 3) AS hours\nFROM items GROUP BY ALL ORDER BY hours DESC",
  "worst texts": "SELECT id, wer, text, hypothesis FROM utterances\nWHERE wer IS NOT NULL ORDER BY wer DESC LIMIT 50",
  "speakers": "SELECT dataset, speaker, count(*) AS clips, round(sum(seconds), 1) AS seconds\nFROM utterances GROUP BY ALL ORDER BY seconds DESC",
};

export async function draw(node, about) {
  const sql = state.get("sql");
  const box = el("textarea", { id: "query", rows: 6, spellcheck: false, "aria-label": "Query", placeholder: "SELECT …" }, sql);
  const run = () => (box.value === state.get("sql") ? answer(node.querySelector("#answer"), about) : state.set({ sql: box.value }));
  box.addEventListener("keydown", (event) => event.key === "Enter" && (event.ctrlKey || event.metaKey) && run());
  node.replaceChildren(
    el("h2", {}, "SQL"),
    el("p", { class: "quiet" }, "DuckDB's SQL, read only: ", el("code", {}, "items"), " has a row for each span (", el("code", {}, "ledger"), " is the same), ", el("code", {}, "utterances"), " those that are packaged. 20 s, 512 MB and 1,000 rows at most; no files, no network."),
    box,
    el("div", { class: "bar" }, el("button", { type: "button", onclick: run }, "Run ", el("kbd", {}, "Ctrl Enter")),
      Object.entries(EXAMPLES).map(([title, text]) => el("button", { type: "button", class: "plain", onclick: () => { box.value = text; run(); } }, title)),
      columns(about)),
    el("div", { id: "answer" }));
  if (sql) await answer(node.querySelector("#answer"), about);
}

const columns = (about) => el("details", {}, el("summary", {}, `${about.columns.length} columns`),
  el("p", { class: "quiet" }, about.columns.map((column) => column.name).join(", ")));

async function answer(node, about) {
  node.replaceChildren(el("p", { class: "quiet" }, "asking …"));
  try {
    const found = await api.get("sql", new URLSearchParams({ version: about.version, sql: state.get("sql") }), "sql");
    const numeric = found.columns.map(({ kind }) => /INT|DOUBLE|FLOAT|DECIMAL/.test(kind));
    node.replaceChildren(
      el("p", { role: "status" }, `${found.more ? "The first " : ""}${number(found.rows.length)} row${found.rows.length === 1 ? "" : "s"}`),
      el("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Answer" },
        el("table", { class: "grid" },
          el("thead", {}, el("tr", {}, found.columns.map(({ name }, at) => el("th", { scope: "col", class: numeric[at] ? "n" : "t" }, name)))),
          el("tbody", {}, found.rows.map((row) => el("tr", {}, row.map((value, at) =>
            el("td", { class: numeric[at] ? "n" : "t" }, numeric[at] && typeof value === "number" ? number(value) : el("bdi", {}, String(value ?? ""))))))))));
  } catch (error) {
    if (api.overtaken(error)) return;
    node.replaceChildren(el("p", { role: "alert", class: "wrong" }, error.message));
  }
}
