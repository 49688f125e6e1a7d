// The table of utterances: kept, dropped and failed alike.

import * as api from "./api.js";
import { amount, el, hours, number } from "./dom.js";
import { grid, pageOf, pages } from "./grid.js";
import * as review from "./review.js";
import * as state from "./state.js";

const USUAL = ["source_path", "outcome", "reason", "seconds", "text", "wer", "language", "speaker", "dataset"];
const heard = new Audio(); // what the list plays
let rows = [];
let main = null;
let known = null;
export const marked = new Set();

export async function draw(node, about) {
  main = node;
  if (known?.version !== about.version) marked.clear(); // numbers of items of that version
  known = about;
  const answer = await api.get("rows", state.query(pageOf()), "main");
  rows = answer.rows;
  const names = state.get("cols") ? state.get("cols").split(",") : usual(about, rows);
  const columns = names.map((name) => about.columns.find((column) => column.name === name)).filter(Boolean);
  const item = Number(state.get("item", "-1"));
  node.replaceChildren(
    el("div", { class: "bar" },
      el("h2", {}, `${amount(answer.total, "clip")}, ${hours(answer.hours)}`),
      chooser(about, names), exports(), el("span", { class: "grow" }), pages(answer.total)),
    review.bulk(answer.total, marked, redraw),
    grid({
      columns, rows, total: answer.total, label: "Clips", key: (row) => row.item,
      chosen: (row) => row.item === item, cell, open: (row) => show(row.item), before: tick,
    }));
  node.querySelector("[aria-selected]")?.scrollIntoView({ block: "nearest" });
}

const usual = (about, some) => USUAL.filter((name) => name !== "wer" && name !== "speaker" || some.some((row) => row[name] !== null));
const redraw = () => draw(main, known);

function tick(row) {
  const box = el("input", { type: "checkbox", checked: marked.has(row.item), "aria-label": `select ${row.id ?? row.recording}`,
    onchange: (event) => { event.target.checked ? marked.add(row.item) : marked.delete(row.item); review.counted(marked); } });
  return el("span", { class: "row-tools" }, box, row.seconds > 0 ? play(row) : null);
}

// Plays a clip, or stops it: one at a time.
function play(row) {
  const address = `api/audio/${row.item}?version=${known.version}`;
  const button = el("button", { type: "button", class: "play", "aria-label": `play ${fileOf(row)}`, onclick: (event) => {
    event.stopPropagation();
    const again = heard.src.endsWith(address) && !heard.paused;
    heard.pause();
    if (again) return;
    heard.src = address;
    heard.onplaying = () => { button.textContent = "■"; };
    heard.onpause = heard.onended = heard.onerror = () => { button.textContent = "▶"; };
    heard.play().catch(() => {});
  } }, "▶");
  return button;
}

export const stop = () => heard.pause();

// The last part of the path, by which people recognise a recording.
export const fileOf = (row) => (row.source_path ?? row.recording ?? "").split("/").at(-1);

export function cell(column, row) {
  const value = row[column.name];
  if (column.name === "source_path") return [el("bdi", { title: value }, fileOf(row)), el("small", { class: "quiet", title: row.id }, row.id ?? "")];
  if (column.name === "outcome") {
    const person = review.of(row.id);
    return [el("span", { class: `tag o-${value}` }, value), person ? el("span", { class: "tag person", title: person.note || "" }, person.decision) : null];
  }
  if (column.name === "reason" && value === row.outcome) return ""; // the ledger repeats the outcome where no rule gave a reason
  if (column.name === "recording") {
    return el("a", { href: link(row.recording) }, value);
  }
  if (column.kind === "number") return number(value);
  return el("bdi", { title: String(value ?? "").length > 40 ? value : null }, value ?? "");
}

export const link = (name) => {
  const asked = state.params();
  ["item", "page", "sort"].forEach((each) => asked.delete(each));
  asked.set("view", "recording");
  asked.set("recording", name);
  return `#${asked}`;
};

// The row of an item, without waiting for its clip to load.
export const rowOf = (item) => rows.find((row) => String(row.item) === item);

export const show = (item) => state.set({ item }, { keepPage: true });

export function picked(node) {
  const item = state.get("item");
  node.querySelector("[aria-selected]")?.removeAttribute("aria-selected");
  const line = node.querySelector(`tr[data-key="${CSS.escape(item)}"]`);
  line?.setAttribute("aria-selected", "true");
  line?.scrollIntoView({ block: "nearest" });
}

// To the next clip of the table, or of the next page.
export function move(step) {
  if (!rows.length || state.get("view", "clips") !== "clips") return;
  const at = rows.findIndex((row) => String(row.item) === state.get("item"));
  const next = at < 0 ? (step > 0 ? 0 : rows.length - 1) : at + step;
  if (rows[next]) show(rows[next].item);
}

export function mark() {
  const box = main?.querySelector("tr[aria-selected] input[type=checkbox]");
  box?.click();
}

function chooser(about, names) {
  const change = (name, on) => {
    const now = names.filter((each) => each !== name);
    state.set({ cols: [...now, ...(on ? [name] : [])].join(",") }, { keepPage: true });
  };
  return el("details", { class: "menu" },
    el("summary", {}, "columns"),
    el("ul", {}, about.columns.map((column) =>
      el("li", {}, el("label", { title: column.doc },
        el("input", { type: "checkbox", checked: names.includes(column.name), onchange: (event) => change(column.name, event.target.checked) }),
        ` ${column.name}`)))));
}

function exports() {
  const asked = state.query();
  const to = (kind) => el("li", {}, el("a", { href: `api/export/${kind}?${asked}`, download: "" }, kind));
  return el("details", { class: "menu" }, el("summary", {}, "export"), el("ul", {}, ["jsonl", "parquet", "zip"].map(to)));
}

// A row shows a decision at once.
export function retag(row) {
  const line = main?.querySelector(`tr[data-key="${row.item}"]`);
  const column = { name: "outcome", kind: "text" };
  line?.querySelector(".tag")?.closest("td").replaceChildren(...cell(column, row).filter(Boolean));
}
