// One clip: audio with waveform and spectrogram, texts, what lies around it, and the decision.

import * as api from "./api.js";
import { fileOf, move, retag, rowOf, show as go, stop } from "./clips.js";
import { el, number, time } from "./dom.js";
import { shown } from "./diff.js";
import * as loudness from "./loudness.js";
import * as review from "./review.js";
import * as sound from "./sound.js";
import * as state from "./state.js";

const MARGIN = 3; // s before and after that `around` plays
const HEIGHTS = { wave: 72, loud: 56, picture: 128 };
let now = null; // {item, version, data, player, sounds}
let editing = null; // the item whose text is to be edited once its clip has loaded

export async function draw(node, about) {
  const item = state.get("item");
  if (item === "") {
    now?.player.pause();
    now = null;
    node.hidden = true;
    node.replaceChildren();
    return;
  }
  const key = `${about.version}/${item}`;
  if (now?.key === key) return;
  now?.player.pause();
  const data = await api.get(`clip/${item}`, new URLSearchParams({ version: about.version }), "clip");
  if (state.get("item") !== item) return; // closed, or another was chosen, meanwhile
  node.hidden = false;
  const player = el("audio", { controls: true, preload: "auto", "aria-label": "Clip" });
  now = { key, item, version: about.version, data, player, around: false, about };
  const parts = [heading(data.row), stage(), review.panel(data, on), texts(data), words(data), ...annotations(data), neighbours(data), facts(data.row, about)];
  node.replaceChildren(...parts.filter(Boolean));
  if (editing === item) review.edit();
  editing = null;
  await load();
}

// What follows a decision.
const on = {
  place: () => now.data.row.start + now.player.currentTime - (now.around ? before(now.data.row) : 0), // s in the recording
  asked: () => move(1), // the next clip can be heard while this one's decision is stored
  stored: (row) => {
    retag(row);
    if (now) review.renew(now.data, on);
  },
};

function heading(row) {
  return el("div", {}, el("div", { class: "bar" },
    el("button", { type: "button", class: "play", "aria-label": "Play or pause", onclick: toggle }, "▶"),
    el("h2", {}, el("bdi", { class: "file", title: row.source_path }, fileOf(row)), " ", el("span", { class: `tag o-${row.outcome}` }, row.outcome), row.outcome === "packaged" ? null : ` ${row.stage}.${row.reason}`),
    el("span", { class: "grow" }),
    el("button", { type: "button", "aria-label": "Close the clip", onclick: () => state.set({ item: null }, { keepPage: true }) }, "×")),
    el("p", { class: "quiet id" }, el("bdi", {}, row.id ?? "no utterance"), ` · ${time(row.start ?? 0)}–${time(row.end ?? 0)}`));
}

function stage() {
  const wave = el("canvas", { role: "img", "aria-label": "Waveform" });
  const loud = el("canvas", { role: "img", "aria-label": "Loudness" });
  const picture = el("canvas", { role: "img", "aria-label": "Spectrogram" });
  const head = el("div", { class: "playhead" });
  const board = el("div", { class: "board" }, wave, loud, picture, head);
  const told = el("p", { class: "quiet", id: "levels" });
  const both = el("label", {}, el("input", { type: "checkbox", id: "around", onchange: switched }), ` ${MARGIN} s before and after`);
  const source = now.data.row.outcome === "packaged"
    ? el("button", { type: "button", id: "source", "aria-pressed": "false", title: "Hear the packaged clip and the recording in turn, from the same place", onclick: compare }, "B: as recorded ", el("kbd", {}, "a"))
    : null;
  Object.assign(now, { wave, loud, picture, head, board, told });
  board.addEventListener("click", (event) => {
    const length = now.player.duration;
    if (length) now.player.currentTime = ((event.clientX - board.getBoundingClientRect().left) / board.clientWidth) * length;
    now.player.play();
  });
  const mine = now; // its width is known once the panel is laid out, and changes with the window
  new ResizeObserver(() => mine.paint?.()).observe(board);
  follow(now);
  return el("div", { class: "stage" }, board, el("div", { class: "bar" }, now.player, source, both), told);
}

function follow(mine) {
  const step = () => {
    if (now !== mine) return;
    const { currentTime, duration } = mine.player;
    mine.head.style.transform = `translateX(${duration ? (currentTime / duration) * mine.board.clientWidth : 0}px)`;
    for (const word of mine.words ?? []) {
      const at = currentTime - (mine.around ? before(mine.data.row) : 0);
      word.node.classList.toggle("now", at >= word.start && at < word.end);
    }
    requestAnimationFrame(step);
  };
  requestAnimationFrame(step);
}

const before = (row) => Math.min(MARGIN, row.start);
const address = (more) => {
  const row = now.data.row;
  const span = now.source && !more ? `&start=${row.start}&end=${row.end}` : "";
  return `api/audio/${now.item}?version=${now.version}${more ? "&around=1" : ""}${span}`;
};

async function load() {
  const mine = now;
  mine.told.textContent = "";
  mine.board.querySelectorAll(".cut").forEach((each) => each.remove());
  try {
    const heard = await sound.samples(address(mine.around));
    if (now !== mine) return;
    mine.player.src = address(mine.around);
    mine.board.hidden = mine.player.hidden = false;
    const seconds = heard.values.length / heard.rate;
    const levels = loudness.loudness(heard);
    mine.paint = () => {
      const width = mine.board.clientWidth;
      if (!width || width === mine.painted) return;
      mine.painted = width;
      sound.wave(mine.wave, heard, width, HEIGHTS.wave);
      loudness.draw(mine.loud, levels, seconds, width, HEIGHTS.loud);
      sound.spectrogram(mine.picture, heard, width, HEIGHTS.picture);
    };
    mine.painted = 0;
    mine.paint();
    mine.told.textContent = `${number(seconds)} s at ${number(heard.rate)} Hz, peak ${heard.peak.toFixed(1)} dBFS, RMS ${heard.rms.toFixed(1)} dBFS${levels.whole === null ? "" : `, loudness ${levels.whole.toFixed(1)} LUFS`}`;
    mine.board.dataset.ready = seconds;
    if (mine.around) {
      const row = mine.data.row, start = before(row);
      for (const at of [start, start + row.end - row.start]) {
        mine.board.append(el("div", { class: "cut", style: { left: `${(100 * at) / seconds}%` } }));
      }
    }
  } catch (error) {
    if (now !== mine) return;
    mine.board.hidden = mine.player.hidden = true;
    mine.told.textContent = `No audio: ${error.message}.`;
  }
}

function switched() {
  now.around = document.getElementById("around").checked;
  load().then(() => now?.player.play());
}

// A is what is packaged, enhanced and levelled as settings say; B is the same span of the recording.
export function compare() {
  const button = document.getElementById("source");
  if (!button || !now) return;
  now.source = !now.source;
  button.setAttribute("aria-pressed", String(now.source));
  button.firstChild.textContent = now.source ? "A: as packaged " : "B: as recorded ";
  const { currentTime, paused } = now.player;
  load().then(() => {
    if (!now) return;
    now.player.currentTime = currentTime;
    if (!paused) now.player.play();
  });
}

export function around() {
  document.getElementById("around")?.click();
}

export function toggle() {
  if (!now || now.player.hidden) return false;
  stop();
  if (now.player.paused) now.player.play();
  else now.player.pause();
  return true;
}

// A key may come before the clip has loaded: it means the one that is chosen now.
export function decide(decision) {
  const item = state.get("item");
  const row = (state.get("view", "clips") === "clips" && rowOf(item)) || (now?.item === item && now.data.row);
  if (row) review.decide(row, decision, on);
}

export function edit() {
  const item = state.get("item");
  if (now?.item === item) review.edit();
  else editing = item;
}

function texts({ row, reference, heard, others }) {
  const kept = row.text ?? reference ?? heard;
  const parts = [el("h3", {}, "Text", row.text_source ? el("span", { class: "quiet" }, ` from ${row.text_source === "asr" ? "the recogniser" : "the reference"}`) : null),
    el("p", { class: "text", dir: "auto" }, kept ?? "none")];
  if (reference && heard) {
    parts.push(el("h3", {}, "Recogniser against reference ", el("span", { class: "quiet" }, row.wer === null ? "" : `WER ${(100 * row.wer).toFixed(1)} %`)), shown(reference, heard));
  } else if (heard && heard !== kept) parts.push(el("h3", {}, "Heard"), shown(kept ?? "", heard));
  for (const other of others ?? []) parts.push(el("h3", {}, "Another recogniser against this one"), shown(heard ?? kept ?? "", other));
  return el("div", {}, parts);
}

function words({ words: timed }) {
  if (!timed?.length) return null;
  now.words = timed.map((word) => {
    const node = el("button", { type: "button", class: "word", title: `${number(word.start)} s`, onclick: () => {
      now.player.currentTime = word.start + (now.around ? before(now.data.row) : 0);
      now.player.play();
    } }, word.word);
    return { ...word, node };
  });
  return el("div", {}, el("h3", {}, "Words"), el("p", { class: "words" }, now.words.map((word) => word.node)));
}

// Labels in words; of events a lane each, over the clip's time; contours as a line of it.
function annotations({ row, annotations: said }) {
  const seconds = row.end - row.start;
  return (said ?? []).filter(({ value }) => value !== null).map((each) => {
    const title = el("h3", { title: each.doc }, each.name, " ", el("span", { class: "quiet" }, each.kind));
    if (each.kind === "label") return el("div", {}, title, el("p", {}, el("bdi", {}, each.value)));
    if (each.kind === "events") return el("div", {}, title, lanes(each.value, seconds));
    if (each.kind === "array") return el("div", {}, title, contour(each, seconds));
    return el("div", {}, title, el("p", { class: "quiet" }, `${each.value.length} numbers`));
  });
}

function lanes(events, seconds) {
  const labels = [...new Set(events.map(({ label }) => label))];
  return el("div", { class: "lanes" }, labels.map((label) => el("div", { class: "lane", "aria-label": label },
    events.filter((event) => event.label === label).map((event) => el("button", {
      type: "button",
      class: "event",
      title: `${label}, ${number(event.start)}–${number(event.end)} s${event.score === null ? "" : `, ${number(event.score)}`}`,
      style: { left: `${(100 * event.start) / seconds}%`, width: `${(100 * (event.end - event.start)) / seconds}%` },
      onclick: () => {
        now.player.currentTime = event.start + (now.around ? before(now.data.row) : 0);
        now.player.play();
      },
    }, el("bdi", {}, label))))));
}

function contour({ name, unit, value, rate }, seconds) {
  const low = Math.min(...value), high = Math.max(...value), span = high - low || 1;
  const canvas = el("canvas", { role: "img", class: "contour", width: 480, height: 56, "aria-label": `${name}: ${number(low, unit)} to ${number(high, unit)}` });
  const pen = canvas.getContext("2d");
  pen.strokeStyle = getComputedStyle(document.body).color;
  pen.beginPath();
  value.forEach((each, at) => pen.lineTo((480 * at) / (rate * seconds), 52 - (48 * (each - low)) / span));
  pen.stroke();
  return canvas;
}

function neighbours(data) {
  const row = data.row;
  const asked = new URLSearchParams({ view: "recording", recording: row.recording, item: row.item, version: now.version });
  return el("div", {},
    el("h3", {}, "In its recording ", el("a", { href: `#${asked}` }, "timeline")),
    el("ul", { class: "around" }, data.around.map((each) =>
      el("li", { "aria-current": each.item === row.item ? "true" : null },
        el("button", { type: "button", class: "plain", onclick: () => go(each.item) }, `${time(each.start)}–${time(each.end)}`),
        el("span", { class: `tag o-${each.outcome}` }, each.outcome === "packaged" ? "kept" : each.reason),
        el("bdi", {}, each.text ?? "")))));
}

function facts(row, about) {
  const kinds = Object.fromEntries(about.columns.map((column) => [column.name, column]));
  const known = Object.entries(row).filter(([name, value]) => value !== null && kinds[name] && !["text", "hypothesis", "normalised", "outcome"].includes(name));
  return el("details", {}, el("summary", {}, `All ${known.length} facts`),
    el("dl", { class: "facts" }, known.flatMap(([name, value]) => [
      el("dt", { title: kinds[name].doc }, name),
      el("dd", {}, kinds[name].kind === "number" ? number(value, kinds[name].unit) : el("bdi", {}, value))])));
}
