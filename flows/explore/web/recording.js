// One recording over time: what was cut, kept and dropped, and why. A click plays it.

import * as api from "./api.js";
import { cell, show } from "./clips.js";
import { clock, colour, el, fault, number, sized, time } from "./dom.js";
import * as state from "./state.js";

const HEIGHT = 92;
let spans = [];

export async function draw(node, about) {
  const recording = state.get("recording");
  const asked = new URLSearchParams({ recording, version: about.version });
  const answer = await api.get("timeline", asked, "main");
  spans = answer.spans;
  const board = el("canvas", { class: "timeline", role: "img", "aria-label": "Timeline; the table below lists the same spans" });
  const seconds = {};
  for (const span of spans) seconds[span.outcome] = (seconds[span.outcome] ?? 0) + span.seconds;
  const columns = ["start", "end", "outcome", "reason", "value", "threshold", "speaker", "text"];
  const kinds = Object.fromEntries(about.columns.map((column) => [column.name, column]));
  node.replaceChildren(
    el("div", { class: "bar" }, el("h2", {}, el("bdi", {}, recording)), el("span", { class: "quiet" }, `${clock(answer.end)} long`),
      el("button", { type: "button", onclick: () => speech(recording, board, answer.end) }, "Speech probability")),
    el("p", { class: "legend" }, Object.entries(seconds).map(([outcome, some]) => el("span", {}, el("span", { class: `tag o-${outcome}` }, outcome), ` ${number(some)} s`))),
    board,
    el("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Spans" },
      el("table", { class: "grid" },
        el("thead", {}, el("tr", {}, columns.map((name) => el("th", { scope: "col", class: kinds[name]?.kind === "number" ? "n" : "t" }, name)), el("th", { scope: "col" }, "detail"))),
        el("tbody", {}, spans.map((span) => {
          const line = el("tr", { "data-key": span.item, "aria-selected": String(span.item) === state.get("item") ? "true" : null },
            columns.map((name, index) => el("td", { class: kinds[name]?.kind === "number" ? "n" : "t" },
              name === "end" ? time(span.end) : index ? cell(kinds[name] ?? { name }, span) : el("button", { type: "button", class: "plain", onclick: () => show(span.item) }, time(span.start)))),
            el("td", { class: "t" }, el("bdi", {}, span.detail ?? "")));
          line.addEventListener("click", () => show(span.item));
          return line;
        })))));
  paint(board, answer.end);
  board.addEventListener("click", (event) => {
    const at = (event.offsetX / board.clientWidth) * answer.end;
    const hit = spans.filter((span) => span.start <= at && at < span.end);
    if (hit.length) show((hit.find((span) => span.id) ?? hit[0]).item);
  });
}

// The voice detector's curve over the spans; the server decodes the recording for it.
async function speech(recording, board, end) {
  try {
    fault(null);
    const { step, values } = await api.get("speech", new URLSearchParams({ recording }), "speech");
    paint(board, end);
    const draw = board.getContext("2d"), width = board.clientWidth;
    draw.strokeStyle = colour("--ink");
    draw.lineWidth = 1.5;
    draw.beginPath();
    values.forEach((value, at) => draw.lineTo((((at + 0.5) * step) / end) * width, 56 - 48 * value));
    draw.stroke();
    board.dataset.speech = values.length;
  } catch (error) {
    if (!api.overtaken(error)) fault(error);
  }
}

export function picked(node) {
  node.querySelector("[aria-selected]")?.removeAttribute("aria-selected");
  node.querySelector(`tr[data-key="${CSS.escape(state.get("item"))}"]`)?.setAttribute("aria-selected", "true");
}

function paint(board, end) {
  const width = board.clientWidth || 800;
  sized(board, width, HEIGHT);
  const draw = board.getContext("2d");
  const x = (seconds) => (end ? (seconds / end) * width : 0);
  draw.font = "11px system-ui";
  for (const span of spans) {
    const speech = span.id !== null;
    draw.fillStyle = colour(`--o-${span.outcome}`);
    draw.fillRect(x(span.start), speech ? 8 : 26, Math.max(x(span.end) - x(span.start) - 0.5, 1), speech ? 48 : 12);
    if (x(span.end) - x(span.start) > 60) {
      draw.fillStyle = colour("--on-outcome");
      const words = span.outcome === "packaged" ? (span.text ?? "") : span.reason;
      if (speech) draw.fillText(words.slice(0, Math.floor((x(span.end) - x(span.start)) / 7)), x(span.start) + 4, 36);
    }
  }
  const speakers = [...new Set(spans.map((span) => span.speaker).filter(Boolean))];
  spans.filter((span) => span.speaker).forEach((span) => {
    draw.fillStyle = `hsl(${(speakers.indexOf(span.speaker) * 137) % 360} 50% 50%)`;
    draw.fillRect(x(span.start), 60, Math.max(x(span.end) - x(span.start) - 0.5, 1), 6);
  });
  draw.fillStyle = colour("--quiet");
  const step = [0.5, 1, 2, 5, 10, 30, 60, 120, 300, 600, 1800, 3600].find((each) => (each / (end || 1)) * width > 70) ?? 7200;
  for (let at = 0; at <= end; at += step) {
    draw.fillRect(x(at), 70, 1, 5);
    draw.fillText(step < 1 ? number(at) : clock(at), Math.min(x(at) + 2, width - 34), 86);
  }
}
