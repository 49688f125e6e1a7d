// Two versions side by side: what came, went or changed.

import * as api from "./api.js";
import { el, hours, number } from "./dom.js";
import { shown } from "./diff.js";
import { show } from "./clips.js";
import { PAGE, pageOf, pages } from "./grid.js";
import * as state from "./state.js";

const TITLES = { came: "came", went: "went", outcome: "rejected otherwise", text: "another text", heard: "heard otherwise" };

export async function draw(node, about) {
  const others = about.versions.filter((number) => number !== about.version);
  if (!others.length) {
    node.replaceChildren(el("h2", {}, "Versions"), el("p", { class: "none" }, "There is only one version; the next run makes another to compare it with."));
    return;
  }
  const against = Number(state.get("against", about.against ?? others.find((each) => each < about.version) ?? others[0]));
  const change = state.get("change");
  const asked = new URLSearchParams({ version: about.version, against, change, ...pageOf() });
  const answer = await api.get("compare", asked, "main");
  const total = answer.counts.filter((each) => !change || each.change === change).reduce((sum, each) => sum + each.items, 0);
  node.replaceChildren(
    el("div", { class: "bar" },
      el("h2", {}, `Version ${answer.now} against `),
      el("select", { "aria-label": "Version to compare with", onchange: (event) => state.set({ against: event.target.value }) },
        others.map((each) => el("option", { value: each, selected: each === against }, `v${each}`))),
      el("div", { class: "tabs", role: "group", "aria-label": "Changes" },
        el("button", { type: "button", "aria-pressed": change ? "false" : "true", onclick: () => state.set({ change: null }) }, "all"),
        answer.counts.map((each) => el("button", { type: "button", "aria-pressed": change === each.change ? "true" : "false", onclick: () => state.set({ change: each.change }) },
          `${TITLES[each.change]} ${number(each.items)} (${hours(each.hours)})`))),
      el("span", { class: "grow" }), total > PAGE ? pages(total) : null),
    totals(answer),
    answer.rows.length ? table(answer.rows) : el("p", { class: "none" }, "Nothing changed between these versions."));
}

function totals(answer) {
  const rate = (name) => name === "WER" || name === "CER";
  const text = (name, value) => (value === null ? "unknown" : rate(name) ? `${(100 * value).toFixed(2)} %` : Number.isInteger(value) ? number(value) : value.toFixed(3));
  const difference = (name, [then, now]) => (then === null || now === null ? "" : `${now < then ? "−" : "+"}${text(name, Math.abs(now - then)).replace("%", "points")}`);
  const row = (head, cells) => el("tr", {}, el("th", { scope: "row" }, head), cells.map((cell) => el("td", { class: "n" }, cell)));
  return el("table", { class: "totals" },
    el("thead", {}, el("tr", {}, ["", `v${answer.then}`, `v${answer.now}`, "difference"].map((name) => el("th", { scope: "col" }, name)))),
    el("tbody", {}, Object.entries(answer.totals).map(([name, pair]) => row(name, [...pair.map((value) => text(name, value)), difference(name, pair)]))));
}

function table(rows) {
  const tag = (outcome, reason) => (outcome ? [el("span", { class: `tag o-${outcome}` }, outcome), outcome === "packaged" ? null : ` ${reason}`].filter(Boolean) : ["not there"]);
  return el("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Changes" },
    el("table", { class: "grid" },
      el("thead", {}, el("tr", {}, ["clip", "change", "then", "now", "text"].map((name) => el("th", { scope: "col" }, name)))),
      el("tbody", {}, rows.map((row) => el("tr", {},
        el("td", { class: "t id" }, row.item === null ? el("bdi", {}, row.id) : el("button", { type: "button", class: "plain", onclick: () => show(row.item) }, row.id)),
        el("td", {}, TITLES[row.change]),
        el("td", {}, tag(row.outcome_then, row.reason_then)),
        el("td", {}, tag(row.outcome, row.reason)),
        el("td", { class: "t wide" }, row.change === "text" ? shown(row.text_then ?? "", row.text ?? "") : row.change === "heard" ? shown(row.heard_then ?? "", row.heard ?? "") : el("bdi", {}, row.text ?? row.text_then ?? "")))))));
}
