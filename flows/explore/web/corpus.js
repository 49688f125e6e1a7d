// The corpus as a whole: hours and rates by anything, vocabulary and characters.

import * as api from "./api.js";
import { el, hours, number } from "./dom.js";
import * as state from "./state.js";

const KINDS = ["dataset", "language", "speaker", "split", "reason", "recording", "texts", "words", "characters"];
const LETTERS = 300; // of a text that are shown
const COLUMNS = {
  items: ["clips", number], different: ["different texts", number], hours: ["audio", hours], kept_hours: ["kept", hours], mean_seconds: ["mean s", number],
  words_per_second: ["words/s", number], wer: ["WER", rate], cer: ["CER", rate],
};
function rate(value) {
  return value === null || value === undefined ? "" : `${(100 * value).toFixed(1)} %`;
}

export async function draw(node, about) {
  const what = state.get("what", "dataset");
  const rare = state.get("rare") === "1";
  const labels = about.columns.map((column) => column.name).filter((name) => name.startsWith("label."));
  const by = sortedBy(what);
  const answer = await api.get("table", state.query({ what, by, rare: rare ? "1" : null }, { without: ["sort"] }), "main");
  const counted = ["words", "characters"].includes(what);
  node.replaceChildren(
    el("div", { class: "bar" },
      el("h2", {}, "Corpus by"),
      el("div", { class: "tabs", role: "group", "aria-label": "Group by" }, [...KINDS, ...labels].map((kind) =>
        el("button", { type: "button", "aria-pressed": kind === what ? "true" : "false", onclick: () => state.set({ what: kind }) }, kind))),
      counted ? el("label", {}, el("input", { type: "checkbox", checked: rare, onchange: (event) => state.set({ rare: event.target.checked ? "1" : null }) }), " rare ones first") : null),
    counted
      ? el("p", { class: "quiet" }, `${number(answer.kinds)} different ${what}, ${number(answer.whole)} in all, ${number(answer.once)} only once. Click one to find its clips.`)
      : el("p", { class: "quiet" }, what === "texts" ? texts(answer) : first(answer), `Click a ${what === "texts" ? "text" : "name"} to see its clips; a heading sorts.`),
    counted ? counts(answer.rows, what) : groups(answer.rows, what, answer.column));
}

// By which column: of texts that were asked for whole, else on the server, as groups may be many.
function sortedBy(what) {
  const by = state.get("by-table");
  const name = by.replace("-", "");
  const known = name === "name" || (name in COLUMNS && (what === "texts" || name !== "different"));
  return known ? by : what === "texts" ? "-items" : "-hours";
}

const first = ({ kinds, rows }) => (rows.length < kinds ? `The first ${number(rows.length)} of ${number(kinds)}, in this order. ` : "");

function texts({ kinds, rows }) {
  const shown = rows.length < kinds ? ` The ${number(rows.length)} most frequent are shown.` : "";
  return `${number(kinds)} ${kinds === 1 ? "text" : "texts"} that several clips have, as texts are compared: near-equal ones count as one.${shown} The rule repeated_text sets a limit. `;
}

function counts(rows, what) {
  const most = Math.max(...rows.map((row) => row.count), 1);
  return el("div", { class: "counts" }, rows.map((row) =>
    el("button", { type: "button", class: "count-row", onclick: () => state.set({ view: "clips", [what === "words" ? "word" : "character"]: row.name }) },
      el("bdi", { class: what === "characters" ? "char" : "" }, row.name),
      el("span", { class: "bar-of", style: { width: `${(100 * row.count) / most}%` } }),
      el("span", { class: "count" }, number(row.count)))));
}

function groups(rows, what, column) {
  const shown = Object.entries(COLUMNS).filter(([name]) => rows.some((row) => row[name] !== null && row[name] !== undefined));
  const by = sortedBy(what);
  const name = by.replace("-", "");
  const way = by.startsWith("-") ? -1 : 1;
  const sorted = what !== "texts" ? rows : [...rows].sort((a, b) => (a[name] === null) - (b[name] === null) || way * (a[name] > b[name] ? 1 : a[name] < b[name] ? -1 : 0));
  const head = (column, title, kind) => el("th", { scope: "col", class: kind, "aria-sort": name === column ? (way < 0 ? "descending" : "ascending") : "none" },
    el("button", { type: "button", onclick: () => state.set({ "by-table": by === `-${column}` ? column : `-${column}` }) }, title, name === column ? (way < 0 ? " ↓" : " ↑") : ""));
  const chosen = (row) => (what === "texts" ? { [`in.${column}`]: row.same } : { [`in.${what}`]: [row.name ?? ""] });
  const open = (row) => state.set(what === "recording" ? { view: "recording", recording: row.name } : { view: "clips", ...chosen(row) });
  const shorter = (name) => (name.length > LETTERS ? `${name.slice(0, LETTERS)} …` : name);
  return el("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Groups" },
    el("table", { class: "grid" },
      el("thead", {}, el("tr", {}, head("name", what, "t"), shown.map(([column, [title]]) => head(column, title, "n")))),
      el("tbody", {}, sorted.map((row) => el("tr", {},
        el("td", { class: "t" }, el("button", { type: "button", class: "plain", disabled: row.same?.length === 0, onclick: () => open(row) }, el("bdi", {}, shorter(row.name ?? "none")))),
        shown.map(([column, [, text]]) => el("td", { class: "n" }, row[column] === null || row[column] === undefined ? "" : text(row[column]))))))));
}
