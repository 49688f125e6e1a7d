// The filters at the side: values to tick, ranges of measures, and what is chosen now.

import * as api from "./api.js";
import { el, number } from "./dom.js";
import * as state from "./state.js";

const TITLES = { outcome: "Outcome", reason: "Reason", dataset: "Dataset", speaker: "Speaker", language: "Language", split: "Split" };
const SIGNS = { min: "≥", max: "≤", below: "<" };
const LETTERS = 80; // of a value that are shown
const LABEL = "label.";  // before the name of a source's label

const titles = (facets) => [
  ...Object.entries(TITLES),
  ...Object.keys(facets).filter((name) => name.startsWith(LABEL)).map((name) => [name, `Label ${name.slice(LABEL.length)}`]),
  ...Object.keys(facets).filter((name) => !(name in TITLES) && !name.startsWith(LABEL) && name !== "stage").map((name) => [name, name]),
];

export function draw(node, about) {
  const open = new Set([...node.querySelectorAll("details[open]")].map((each) => each.dataset.name));
  const first = !node.children.length;
  if (first && innerWidth > 900) ["outcome", "reason"].forEach((name) => open.add(name));
  recount(node);
  node.replaceChildren(
    chips(about),
    ...titles(about.facets).map(([name, title]) => facet(name, title, about.facets[name] ?? [], open.has(name))),
    ranges(about, open.has("range")),
    el("label", { class: "line" },
      el("input", { type: "checkbox", checked: state.get("spans") === "1", onchange: (e) => state.set({ spans: e.target.checked ? "1" : null }) }),
      " also pauses and unsegmented audio"),
  );
}

// The counts of a facet are those of the clips that the filters of all others choose.
async function recount(node) {
  try {
    const facets = await api.get("facets", state.query(), "facets");
    for (const box of node.querySelectorAll("details[data-name] li[data-value]")) {
      const values = facets[box.closest("details").dataset.name] ?? [];
      const row = values.find(({ value }) => (value ?? "") === box.dataset.value);
      box.querySelector(".count").textContent = number(row?.items ?? 0);
      box.classList.toggle("quiet", !row);
    }
  } catch (error) {
    if (!api.overtaken(error)) throw error;
  }
}

function chips() {
  const chosen = state.filters();
  if (!chosen.length && !state.get("q")) return el("p", { class: "quiet" }, "No filter is set.");
  const say = ([name, value]) => {
    const [kind, column] = [name.split(".")[0], name.slice(name.indexOf(".") + 1)];
    if (kind in SIGNS) return `${column} ${SIGNS[kind]} ${number(Number(value))}`;
    return `${column}: ${value.length > LETTERS ? `${value.slice(0, LETTERS)} …` : value || "none"}`;
  };
  const drop = ([name, value]) => state.set({ [name]: state.params().getAll(name).filter((each) => each !== value) });
  return el("div", { class: "chips" },
    chosen.map((each) => el("button", { type: "button", title: "Remove this filter", onclick: () => drop(each) }, say(each), " ×")),
    el("button", { type: "button", class: "quiet", onclick: () => state.set({ q: null, regex: null, ...Object.fromEntries(chosen.map(([name]) => [name, null])) }) }, "clear all"));
}

function facet(name, title, values, open) {
  const key = `in.${name}`;
  const chosen = new Set(state.params().getAll(key));
  const toggle = (value) => {
    const now = new Set(state.params().getAll(key));
    if (!now.delete(value)) now.add(value);
    state.set({ [key]: [...now] });
  };
  return el("details", { open: open || chosen.size > 0, "data-name": name },
    el("summary", {}, title, chosen.size ? ` (${chosen.size})` : ""),
    el("ul", {}, values.map(({ value, items }) =>
      el("li", { "data-value": value ?? "" }, el("label", {},
        el("input", { type: "checkbox", checked: chosen.has(value ?? ""), onchange: () => toggle(value ?? "") }),
        el("span", { class: `name o-${name === "outcome" ? value : ""}`, dir: "auto" }, value ?? "none"),
        el("span", { class: "count" }, number(items)))))));
}

function ranges(about, open) {
  const numbers = about.columns.filter((column) => column.kind === "number");
  const pick = el("select", { "aria-label": "Measure" }, numbers.map((column) => el("option", { value: column.name }, column.name)));
  const low = el("input", { type: "number", step: "any", "aria-label": "At least", placeholder: "at least" });
  const high = el("input", { type: "number", step: "any", "aria-label": "At most", placeholder: "at most" });
  const show = () => {
    low.value = state.get(`min.${pick.value}`);
    high.value = state.get(`max.${pick.value}`);
  };
  pick.addEventListener("change", show);
  show();
  return el("details", { "data-name": "range", open },
    el("summary", {}, "Range of a measure"),
    el("form", { class: "range", onsubmit: (event) => {
      event.preventDefault();
      state.set({ [`min.${pick.value}`]: low.value, [`max.${pick.value}`]: high.value });
    } }, pick, low, high, el("button", {}, "Set")));
}
