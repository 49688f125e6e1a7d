// Starts the page: what there is, which view, and the keys.

import * as api from "./api.js";
import * as charts from "./charts.js";
import * as clip from "./clip.js";
import * as clips from "./clips.js";
import * as compare from "./compare.js";
import * as corpus from "./corpus.js";
import { $, amount, clock, el, fault, say } from "./dom.js";
import * as filters from "./filters.js";
import * as recording from "./recording.js";
import * as recordings from "./recordings.js";
import * as sql from "./sql.js";
import * as views from "./views.js";
import * as review from "./review.js";
import * as state from "./state.js";

const VIEWS = { clips, recordings, charts, corpus, compare, sql, recording };
const SHOWN = { clips: "Clips", recordings: "Recordings", charts: "Charts", corpus: "Corpus", compare: "Compare", sql: "SQL" };
let about = null;
let opened = null; // the version that an address without one means: the newest when the page opened

// The whole address without the token as a parameter: what is in the bar can be sent on.
history.replaceState(null, "", new URL(".", document.baseURI).pathname + location.hash);

// Until what is known is about the version of the address, which may change meanwhile.
async function open() {
  for (;;) {
    const version = state.get("version") || opened;
    if (about && Number(version) === about.version) return;
    about = await api.get("about", new URLSearchParams(version ? { version } : {}), "about");
    opened ??= about.versions[0];
    state.showing(about.version);
    document.body.classList.toggle("read-only", about.read_only);
    if (!about.read_only) await review.refresh();
    head();
  }
}

function head() {
  $("out").textContent = about.out;
  document.title = `${about.out} – uttermill explorer`;
  $("version").replaceChildren(...about.versions.map((number) => el("option", { value: number, selected: number === about.version }, `v${number}`)));
  $("views").replaceChildren(
    ...Object.entries(SHOWN).map(([name, title], index) =>
      el("button", { type: "button", "data-view": name, title: `key ${index + 1}`, onclick: () => state.set({ view: name, item: null }) }, title)),
  );
  const seconds = about.seconds;
  say(`Version ${about.version}: ${amount(about.utterances.packaged, "clip")} kept, ${clock(seconds.packaged)} of ${clock(seconds.in)}`);
}

async function draw(names) {
  try {
    await open();
    fault(null);
    const view = VIEWS[state.get("view", "clips")] ? state.get("view", "clips") : "clips";
    for (const button of $("views").children) {
      if (button.dataset.view === view) button.setAttribute("aria-current", "page");
      else button.removeAttribute("aria-current");
    }
    views.draw($("saved"), about);
    $("q").value = state.get("q");
    $("regex").checked = state.get("regex") === "1";
    const onlyClip = names && [...names].every((name) => name === "item");
    if (!onlyClip || $("main").dataset.view !== view) {
      filters.draw($("filters"), about);
      $("main").dataset.view = view;
      await VIEWS[view].draw($("main"), about);
    } else VIEWS[view].picked?.($("main"));
    await clip.draw($("clip"), about);
    document.body.classList.toggle("with-clip", !$("clip").hidden);
  } catch (error) {
    if (api.overtaken(error)) return;
    if (!(error instanceof api.Refused)) console.error(error);
    fault(error);
  }
}

const typing = (target) => target.closest("input:not([type=checkbox]), textarea, select, dialog[open]");

const KEYS = {
  " ": (event) => clip.toggle() && event.preventDefault(),
  j: () => clips.move(1),
  k: () => clips.move(-1),
  y: () => clip.decide("keep"),
  n: () => clip.decide("drop"),
  u: () => clip.decide("undo"),
  e: (event) => { event.preventDefault(); clip.edit(); },
  x: () => clips.mark(),
  a: () => clip.compare(),
  b: () => clip.around(),
  "?": () => $("help").showModal(),
  "/": (event) => { event.preventDefault(); $("q").focus(); },
  Escape: () => state.set({ item: null }, { keepPage: true }),
};

document.addEventListener("keydown", (event) => {
  if (event.key === "Escape" && document.activeElement?.closest("textarea, input")) document.activeElement.blur();
  if (typing(event.target) || event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === " " && event.target.closest("button, summary, a, input")) return;
  const view = Object.keys(SHOWN)[Number(event.key) - 1];
  if (view) state.set({ view, item: null });
  else KEYS[event.key]?.(event);
});

let typed;
$("q").addEventListener("input", () => {
  clearTimeout(typed);
  typed = setTimeout(() => state.set({ q: $("q").value }, { replace: true }), 200);
});
$("search").addEventListener("submit", (event) => {
  event.preventDefault();
  clearTimeout(typed);
  state.set({ q: $("q").value });
  $("main").focus();
});
$("regex").addEventListener("change", () => state.set({ regex: $("regex").checked ? "1" : null }));
$("version").addEventListener("change", () => state.set({ version: $("version").value, item: null }));
$("help-open").addEventListener("click", () => $("help").showModal());
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => draw(null));

state.watch(draw);
draw(null);
