// A histogram with its limits, a scatter of two measures, and limits to try.

import * as api from "./api.js";
import { durations, histogram, scatter } from "./plots.js";
import { amount, el, hours, number } from "./dom.js";
import * as state from "./state.js";

const USUAL = ["duration", "seconds", "snr", "silence_fraction", "wer", "avg_logprob"];
const MOST = 6; // sliders

const ends = (column) => ["min", "max", "below"].map((kind) => `${kind}.${column}`);

// The clips of some bars, which are drawn up to below their right edge.
const within = (column, low, high) => state.set({ view: "clips", [`min.${column}`]: low, [`max.${column}`]: null, [`below.${column}`]: high });

export async function draw(node, about) {
  const measures = about.columns.filter((column) => column.kind === "number").map((column) => column.name);
  const score = about.with_wer && measures.includes("avg_logprob") ? "avg_logprob" : null;
  const column = state.get("x", score ?? USUAL.find((name) => measures.includes(name)) ?? measures[0]);
  const other = state.get("y", (score && "wer") ?? measures.find((name) => name !== column && USUAL.includes(name)) ?? measures[1]);
  const by = state.get("by", "outcome");
  const without = ["sort"];
  const [lengths, bars, points] = await Promise.all([
    api.get("hours", state.query({}, { without: [...without, ...ends("seconds")] }), "lengths"),
    api.get("histogram", state.query({ column, by }, { without: [...without, ...ends(column)] }), "bars"),
    api.get("scatter", state.query({ x: column, y: other }, { without }), "points"),
  ]);
  const pick = (name, value, values, title) => el("label", {}, `${title} `,
    el("select", { onchange: (event) => state.set({ [name]: event.target.value }) }, values.map((each) => el("option", { value: each, selected: each === value }, each))));
  const limits = about.limits.filter((limit) => limit.column === column);
  const meaning = about.columns.find((each) => each.name === column);
  const parts = {
    lengths: el("div", { class: "plot" }), bars: el("div", { class: "plot" }), points: el("div", { class: "plot" }), sliders: el("div", { class: "sliders" }),
  };
  const unit = (name) => about.columns.find((each) => each.name === name)?.unit;
  node.replaceChildren(
    el("h2", { class: "bar" }, "Charts"), el("h3", {}, "Audio by length of clip, and what became of it"), parts.lengths,
    el("div", { class: "bar" }, el("h3", {}, "Measures"), pick("x", column, measures, "measure"), pick("y", other, measures, "against"), pick("by", by, ["outcome", "dataset", "language", "split"], "by")),
    el("p", { class: "quiet" }, meaning?.doc ? `${meaning.doc}.` : "", bars.n ? ` ${amount(bars.n, "clip")}; least ${number(bars.least, meaning?.unit)}, most ${number(bars.most, meaning?.unit)}.` : "", " Drag over a chart to choose its clips."),
    parts.bars, parts.points,
    el("h3", {}, "Other limits"), parts.sliders);
  durations(parts.lengths, lengths, (low, high) => within("seconds", low, high));
  histogram(parts.bars, bars, limits, [column, unit(column)], (low, high) => within(column, low, high));
  scatter(parts.points, points, [[column, unit(column)], [other, unit(other)]], (x, y) => state.set({ view: "clips", [`min.${column}`]: x[0], [`max.${column}`]: x[1], [`min.${other}`]: y[0], [`max.${other}`]: y[1] }));
  sliders(parts.sliders, about, column);
}

function tried() {
  return state.params().getAll("try").map((text) => {
    const [column, side, value] = text.split(":");
    return { column, side, value: Number(value) };
  });
}

function sliders(node, about, column) {
  const known = about.limits.filter((limit) => about.columns.some((each) => each.name === limit.column));
  if (!known.length) {
    node.replaceChildren(el("p", { class: "quiet" }, "OUT keeps no run, so the limits are not known."));
    return;
  }
  const now = tried();
  const add = el("select", { "aria-label": "Limit to try" },
    known.map((limit) => el("option", { value: `${limit.column}:${limit.side}`, selected: limit.column === column }, `${limit.column} ${limit.side} (now ${limit.value === null ? "none" : number(limit.value)})`)));
  const told = el("p", { class: "kept", role: "status" });
  const settings = el("pre", { class: "settings", tabindex: 0 });
  const lines = now.map((each) => slider(each, known, about, () => update()));
  const start = () => {
    const [name, side] = add.value.split(":");
    const limit = known.find((each) => each.column === name && each.side === side);
    state.set({ try: [...state.params().getAll("try").filter((text) => !text.startsWith(`${name}:${side}:`)), `${name}:${side}:${limit.value ?? 0}`].slice(-MOST) }, { keepPage: true });
  };
  let timer;
  const update = () => {
    const moved = lines.map((line) => line.value());
    history.replaceState(null, "", `${location.pathname}#${withTried(moved)}`);
    settings.textContent = moved.map(({ limit, value }) => `--set ${limit.key}=${value}`).join(" \\\n");
    clearTimeout(timer);
    timer = setTimeout(async () => {
      const limits = JSON.stringify(moved.map(({ limit, value }) => ({ column: limit.column, side: limit.side, value })));
      try {
        const answer = await api.get("kept", state.query({ limits }, { without: ["sort"] }), "kept");
        told.textContent = `Kept now: ${amount(answer.now, "clip")}, ${hours(answer.now_hours)}. With these limits: about ${amount(answer.then, "clip")}, ${hours(answer.then_hours)}.`;
      } catch (error) {
        if (!api.overtaken(error)) told.textContent = error.message;
      }
    }, 60);
  };
  const copy = (text) => navigator.clipboard?.writeText(text);
  node.replaceChildren(
    el("div", { class: "bar" }, add, el("button", { type: "button", onclick: start }, "Try it"),
      now.length ? el("button", { type: "button", onclick: () => copy(settings.textContent) }, "Copy as --set") : null,
      now.length ? el("button", { type: "button", onclick: () => copy(yaml(lines.map((line) => line.value()))) }, "Copy as settings") : null),
    ...lines.map((line) => line.node), now.length ? told : "", now.length ? settings : "");
  if (now.length) update();
}

function withTried(moved) {
  const asked = state.params();
  asked.delete("try");
  moved.forEach(({ limit, value }) => asked.append("try", `${limit.column}:${limit.side}:${value}`));
  return asked;
}

function slider(tried, known, about, moved) {
  const limit = known.find((each) => each.column === tried.column && each.side === tried.side);
  if (!limit) return { node: el("p"), value: () => ({ limit: { key: tried.column, ...tried }, value: tried.value }) };
  const name = `${limit.column} ${limit.side}`;
  const range = el("input", { type: "range", "aria-label": name, step: "any" });
  const box = el("input", { type: "number", step: "any", value: tried.value, "aria-label": `${name}, exactly` });
  api.get("histogram", state.query({ column: limit.column }, { without: ["sort"] })).then(({ low, high }) => {
    range.min = Math.min(low, tried.value);
    range.max = Math.max(high, tried.value);
    range.value = tried.value;
  }).catch(() => {});
  range.addEventListener("input", () => { box.value = Number(Number(range.value).toPrecision(4)); moved(); });
  box.addEventListener("input", () => { range.value = box.value; moved(); });
  const drop = () => state.set({ try: state.params().getAll("try").filter((text) => !text.startsWith(`${limit.column}:${limit.side}:`)) }, { keepPage: true });
  return {
    node: el("div", { class: "slider" }, el("span", { class: "name" }, name, limit.conditional ? el("span", { class: "quiet" }, " (spares some)") : null), range, box, el("button", { type: "button", "aria-label": `remove ${name}`, onclick: drop }, "×")),
    value: () => ({ limit, value: Number(box.value) }),
  };
}

// The same as YAML, with the whole entry of each plug-in named by its key.
function yaml(moved) {
  return moved.map(({ limit, value }) => {
    const [stage, list, use, setting] = limit.key.split(".");
    return `# ${stage}.${list}, entry of ${use}:\n{use: ${use}, ${setting}: ${value}}`;
  }).join("\n");
}
