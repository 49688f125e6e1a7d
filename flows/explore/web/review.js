// Decisions by people: keep, drop, another text or other boundaries, stored at once.

import * as api from "./api.js";
import { $, amount, el, fault, number, say } from "./dom.js";
import * as state from "./state.js";

const WORDS = { keep: "kept", drop: "dropped", retext: "given another text", recut: "cut again at the next run", undo: "left to the settings again" };
const known = new Map(); // newest decision by id
let next = 0; // line of the file that is read next
let asking = null;

export const of = (id) => {
  const found = id === null ? undefined : known.get(id);
  return found && found.decision !== "undo" ? found : null;
};

// What others decided meanwhile comes with every answer, as the lines of the file from `since` on.
// One answer may overtake another: lines that are known already are older than what is known now.
function take(answer, since) {
  if (answer.next < since) { // another file: the answer is all of it
    known.clear();
    next = 0;
  }
  const first = answer.next - answer.decisions.length;
  for (const each of answer.decisions.slice(Math.max(0, next - first))) known.set(each.id, each);
  next = Math.max(next, answer.next);
}

export async function refresh() {
  const since = next;
  asking ??= api.get("reviews", new URLSearchParams({ since })).then((answer) => take(answer, since)).finally(() => { asking = null; });
  return asking;
}

async function send(path, data) {
  const since = next;
  const answer = await api.post(path, { ...data, since });
  take(answer, since);
  return answer;
}

const done = (count, decision) => `${count === 1 ? "The clip is" : `${amount(count, "clip")} are`} ${WORDS[decision]}.`;
const who = () => localStorage.getItem("who") ?? "";

async function store(ids, decision, more = {}) {
  const decisions = ids.map((id) => ({ id, decision, who: who(), ...more }));
  await send("reviews", { decisions, version: state.query().get("version") });
  say(done(ids.length, decision));
}

// `on.asked()` is called at once, `on.stored(row)` once the decision is stored.
export async function decide(row, decision, on) {
  if (row.id === null) return say("Only utterances can be decided on.");
  const more = note(row);
  on.asked();
  try {
    fault(null);
    await store([row.id], decision, more);
    on.stored(row);
  } catch (error) {
    fault(error);
  }
}

// The note that stands beside this row: the panel may still show the clip before it.
const note = (row) => {
  const text = $("review")?.dataset.item === String(row.item) ? $("note").value.trim() : "";
  return text ? { note: text } : {};
};

export function edit() {
  const box = $("review")?.querySelector("details");
  if (box) {
    box.open = true;
    $("text").focus();
  }
}

// Draws the panel again after a decision was stored. What somebody types meanwhile stays.
export function renew(data, on) {
  const old = $("review");
  if (!old) return;
  const { open } = old.querySelector("details");
  const focused = document.activeElement;
  const fields = [$("text"), $("note")];
  old.replaceWith(panel(data, on));
  for (const before of fields) {
    const after = $(before.id);
    const changed = before.value !== before.defaultValue;
    if (changed && before.value === after.value) continue; // it is stored
    if (changed) after.value = before.value;
    if (!changed && before !== focused) continue;
    if (before.id === "text") after.closest("details").open = open;
    if (before !== focused) continue;
    after.focus();
    after.setSelectionRange(before.selectionStart, before.selectionEnd);
  }
}

export function panel(data, on) {
  const row = data.row;
  if (row.id === null || document.body.classList.contains("read-only")) return el("div", { id: "review" });
  const made = of(row.id);
  const button = (decision, title, key) =>
    el("button", { type: "button", class: `d-${decision}`, "aria-pressed": made?.decision === decision ? "true" : "false", onclick: () => decide(row, decision, on) }, title, " ", el("kbd", {}, key));
  const text = el("textarea", { id: "text", rows: 3, dir: "auto", "aria-label": "Another text" }, made?.text ?? row.text ?? data.heard ?? data.reference ?? "");
  const save = async () => {
    try {
      fault(null);
      await store([row.id], "retext", { text: text.value, ...note(row) });
      on.stored(row);
    } catch (error) {
      fault(error);
    }
  };
  const edge = (name, label) => el("input", { id: name, type: "number", step: 0.01, min: 0, "aria-label": label, defaultValue: (made?.[name] ?? row[name]).toFixed(3) });
  const edges = [edge("start", "Start, s in the recording"), edge("end", "End, s in the recording")];
  const here = (input) => el("button", { type: "button", title: "Where the player is", onclick: () => { input.value = on.place().toFixed(3); } }, `${input.id} here`);
  const stays = el("input", { id: "stays", type: "checkbox" });
  const kept = data.reference && !made?.text ? el("label", { title: "No word of it is cut away" }, stays, " the text stays as it is") : null;
  const recut = async () => {
    try {
      fault(null);
      const [start, end] = edges.map((input) => input.valueAsNumber);
      const words = made?.text ?? (stays.checked ? row.text ?? data.reference : null);
      await store([row.id], "recut", { start, end, ...(words ? { text: words } : {}), ...note(row) });
      if (data.reference && !words) say("The clip is cut again at the next run. Its source's text goes along only by words that have times, or with a segment: read it there.");
      on.stored(row);
    } catch (error) {
      fault(error);
    }
  };
  text.addEventListener("keydown", (event) => event.key === "Enter" && (event.ctrlKey || event.metaKey) && save());
  return el("div", { id: "review", "data-item": row.item },
    el("div", { class: "bar" }, button("keep", "Keep", "y"), button("drop", "Drop", "n"), made ? button("undo", "Undo", "u") : null,
      el("input", { id: "note", placeholder: "note", "aria-label": "Note on the decision", defaultValue: made?.note ?? "" }),
      el("input", { id: "who", placeholder: "your name", "aria-label": "Your name", value: who(), onchange: (event) => localStorage.setItem("who", event.target.value) })),
    el("details", {}, el("summary", {}, "Another text ", el("kbd", {}, "e")), text, el("button", { type: "button", onclick: save }, "Save the text")),
    el("details", { id: "edges" }, el("summary", {}, "Other boundaries"), el("div", { class: "bar" }, edges.flatMap((input) => [input, here(input)]), kept, el("button", { type: "button", onclick: recut }, "Save the boundaries"))),
    made ? el("p", { class: "person-says" }, `${made.who || "Somebody"} decided: ${made.decision}${made.text ? ` “${made.text}”` : ""}${made.end ? ` ${number(made.start)}–${number(made.end)} s` : ""}${made.note ? ` – ${made.note}` : ""} (${made.when}). The next run applies it.`) : null);
}

// A decision on many: on what is selected, or on everything that the filters choose.
export function bulk(total, marked, redraw) {
  if (document.body.classList.contains("read-only")) return el("p", { class: "quiet" }, "For looking only: there is no OUT that would keep a decision.");
  const run = async (decision) => {
    try {
      fault(null);
      const asked = state.query();
      const body = { selection: marked.size ? null : asked.toString(), items: [...marked], decision, who: who(), version: asked.get("version") };
      if (!marked.size && !confirm(`${decision} all that match: ${amount(total, "clip")}?`)) return;
      const answer = await send("reviews/selection", body);
      say(done(answer.stored, decision));
      marked.clear();
      redraw();
    } catch (error) {
      fault(error);
    }
  };
  const title = el("span", { id: "marked" }, counting(marked));
  return el("div", { class: "bar bulk" }, title,
    ["keep", "drop", "undo"].map((decision) => el("button", { type: "button", disabled: !total, onclick: () => run(decision) }, decision)));
}

const counting = (marked) => (marked.size ? `${number(marked.size)} selected:` : "All that match:");
export const counted = (marked) => { $("marked").textContent = counting(marked); };
