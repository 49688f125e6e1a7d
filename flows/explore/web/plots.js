// The charts, drawn on canvases, with a brush.

import { colour, el, number, sized } from "./dom.js";

const OUTCOMES = ["packaged", "dropped", "failed", "non_speech", "unsegmented"];
const EDGE = { left: 68, right: 14, top: 12, bottom: 42 };

const hue = (name, index) => (OUTCOMES.includes(name) ? colour(`--o-${name}`) : `hsl(${(index * 137) % 360} 45% 50%)`);

function frame(node, height, label) {
  const board = el("canvas", { role: "img", "aria-label": label });
  node.replaceChildren(board);
  const width = node.clientWidth || 800;
  sized(board, width, height);
  const draw = board.getContext("2d");
  draw.font = "11px system-ui";
  return { board, draw, width: width - EDGE.left - EDGE.right, height: height - EDGE.top - EDGE.bottom };
}

function ticks(low, high, count) {
  const rough = (high - low) / count || 1;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((each) => each * power).find((each) => each >= rough);
  const found = [];
  for (let at = Math.ceil(low / step) * step; at <= high + step / 1e6; at += step) found.push(Math.abs(at) < step / 1e6 ? 0 : at);
  return found;
}

const named = ([name, unit]) => `${name.replaceAll("_", " ")}${unit && unit !== "1" ? ` (${unit})` : ""}`;

// Names of both axes, with their units.
function titles({ draw, width, height }, below, beside) {
  draw.fillStyle = colour("--ink");
  draw.textAlign = "center";
  draw.fillText(below, EDGE.left + width / 2, EDGE.top + height + 34);
  draw.save();
  draw.translate(12, EDGE.top + height / 2);
  draw.rotate(-Math.PI / 2);
  draw.fillText(beside, 0, 0);
  draw.restore();
}

function axes({ draw, width, height }, x, y, counts = false) {
  draw.strokeStyle = colour("--line");
  draw.fillStyle = colour("--quiet");
  draw.textAlign = "right";
  for (const at of ticks(...y, Math.min(4, counts ? y[1] : 4))) {
    const place = EDGE.top + height * (1 - (at - y[0]) / (y[1] - y[0] || 1));
    draw.fillText(number(at), EDGE.left - 6, place + 4);
    draw.beginPath(); draw.moveTo(EDGE.left, place); draw.lineTo(EDGE.left + width, place); draw.stroke();
  }
  draw.textAlign = "center";
  if (!x) return;
  let end = -Infinity;
  for (const at of ticks(...x, Math.max(width / 90, 2))) {
    const place = EDGE.left + (width * (at - x[0])) / (x[1] - x[0] || 1), half = draw.measureText(number(at)).width / 2;
    if (place - half < end + 6) continue; // labels would touch
    end = place + half;
    draw.fillText(number(at), place, EDGE.top + height + 16);
  }
}

export function histogram(node, data, limits, column, choose) {
  if (!data.counts.length) return node.replaceChildren(el("p", { class: "none" }, "No clip has this measure."));
  const names = [...new Set(data.counts.map((each) => each.name))].sort((a, b) => OUTCOMES.indexOf(a) - OUTCOMES.indexOf(b));
  const sums = Array(data.bins).fill(0);
  for (const each of data.counts) sums[each.bin] += each.count;
  const most = Math.max(...sums);
  const area = frame(node, 220, `Histogram, ${number(data.n)} clips from ${number(data.low)} to ${number(data.high)}`);
  const { draw, width, height } = area;
  axes(area, [data.low, data.high], [0, most], true);
  titles(area, named(column), "clips");
  const base = Array(data.bins).fill(0);
  names.forEach((name, index) => {
    draw.fillStyle = hue(name, index);
    for (const { bin, count } of data.counts.filter((each) => each.name === name)) {
      const tall = (height * count) / most;
      draw.fillRect(EDGE.left + (width * bin) / data.bins, EDGE.top + height - base[bin] - tall, width / data.bins - 1, Math.max(tall, 1));
      base[bin] += tall;
    }
  });
  const span = data.high - data.low || 1;
  let line = 0; // limits near each other are labelled below each other
  for (const limit of limits.filter((each) => each.value !== null && each.value >= data.low && each.value <= data.high)) {
    const x = EDGE.left + (width * (limit.value - data.low)) / span;
    draw.strokeStyle = draw.fillStyle = colour("--limit");
    draw.setLineDash([4, 3]);
    draw.beginPath(); draw.moveTo(x, EDGE.top); draw.lineTo(x, EDGE.top + height); draw.stroke();
    draw.setLineDash([]);
    const words = `${limit.side} ${number(limit.value)}`, wide = draw.measureText(words).width + 8;
    const left = limit.side === "min" ? x + wide < EDGE.left + width : x - wide < EDGE.left;
    draw.textAlign = left ? "left" : "right";
    draw.fillText(words, x + (left ? 4 : -4), EDGE.top + 10 + 13 * line++);
  }
  node.append(legend(names));
  brush(area, node, false, ([low, high]) => {
    const first = Math.floor(low * data.bins), last = Math.max(Math.ceil(high * data.bins), first + 1);
    choose(first <= 0 ? null : data.edges[first], last >= data.bins ? null : data.edges[last]);
  });
}

// Hours by bins of duration, stacked by outcome and reason.
export function durations(node, data, choose) {
  if (!data.counts.length) return node.replaceChildren(el("p", { class: "none" }, "No clip is chosen."));
  const bins = data.edges.length;
  const names = [...new Set(data.counts.map((each) => each.name))];
  const sums = Array(bins).fill(0);
  for (const each of data.counts) sums[each.bin] += each.hours;
  const most = Math.max(...sums) || 1;
  const [scale, unit] = most >= 1 ? [1, "h"] : most * 60 >= 1 ? [60, "min"] : [3600, "s"];
  const area = frame(node, 240, `${unit === "h" ? "Hours" : unit === "s" ? "Seconds" : "Minutes"} by duration of clips and by reason`);
  const { draw, width, height } = area;
  axes(area, null, [0, most * scale]);
  draw.fillStyle = colour("--quiet");
  draw.textAlign = "center";
  data.edges.forEach((edge, bin) => {
    const text = bin === bins - 1 ? `${edge}+` : width / bins < 50 ? `${edge}–` : `${edge}–${data.edges[bin + 1]}`;
    draw.fillText(text, EDGE.left + (width * (bin + 0.5)) / bins, EDGE.top + height + 16);
  });
  titles(area, "duration of a clip (s)", `${unit} of audio`);
  const base = Array(bins).fill(0);
  names.forEach((name, index) => {
    draw.fillStyle = hue(name, index);
    for (const { bin, hours } of data.counts.filter((each) => each.name === name)) {
      const tall = (height * hours) / most;
      draw.fillRect(EDGE.left + (width * bin) / bins + 2, EDGE.top + height - base[bin] - tall, width / bins - 4, tall);
      base[bin] += tall;
    }
  });
  node.append(legend(names));
  brush(area, node, false, ([low, high]) => {
    const first = Math.floor(low * bins), last = Math.max(Math.ceil(high * bins), first + 1);
    choose(data.edges[first] || null, data.edges[last] ?? null);
  });
}

export function scatter(node, data, [xAxis, yAxis], choose) {
  const [xName, yName] = [xAxis[0], yAxis[0]];
  if (!data.points.length) return node.replaceChildren(el("p", { class: "none" }, "No clip has both measures."));
  const ends = (key) => {
    const values = data.points.map((point) => point[key]).sort((a, b) => a - b);
    const [low, high] = [values[0], values.at(-1)];
    const pad = (high - low || 1) * 0.02;
    return [low - pad, high + pad];
  };
  const x = ends("x"), y = ends("y");
  const area = frame(node, 300, `Scatter of ${xName} and ${yName}, ${number(data.points.length)} of ${number(data.total)} clips`);
  axes(area, x, y);
  titles(area, named(xAxis), named(yAxis));
  const { draw, width, height } = area;
  draw.globalAlpha = data.points.length > 800 ? 0.5 : 0.85;
  for (const point of data.points) {
    draw.fillStyle = hue(point.outcome, 0);
    draw.beginPath();
    draw.arc(EDGE.left + (width * (point.x - x[0])) / (x[1] - x[0]), EDGE.top + height * (1 - (point.y - y[0]) / (y[1] - y[0])), 2.5, 0, 7);
    draw.fill();
  }
  node.append(el("p", { class: "quiet" }, `${number(data.points.length)} of ${number(data.total)} clips; ${yName} over ${xName}`));
  const value = (range, part) => range[0] + part * (range[1] - range[0]);
  brush(area, node, true, (across, down) => choose(across.map((part) => value(x, part)), [value(y, 1 - down[1]), value(y, 1 - down[0])]));
}

const legend = (names) => el("p", { class: "legend" }, names.map((name, index) => el("span", {}, el("span", { class: "swatch", style: { background: hue(name, index) } }), ` ${name ?? "none"}`)));

// `done(across, down)`: the parts [0, 1] of the area that were brushed.
function brush({ board, width, height }, node, both, done) {
  const box = el("div", { class: "brush", hidden: true });
  node.append(box);
  let from = null;
  const clamp = (value) => Math.min(Math.max(value, 0), 1);
  const at = (event) => {
    const place = board.getBoundingClientRect();
    return [clamp((event.clientX - place.left - EDGE.left) / width), clamp((event.clientY - place.top - EDGE.top) / height)];
  };
  const paint = (to) => {
    const [l, r] = [from[0], to[0]].sort((a, b) => a - b), [t, b] = both ? [from[1], to[1]].sort((p, q) => p - q) : [0, 1];
    Object.assign(box.style, { left: `${EDGE.left + l * width}px`, width: `${(r - l) * width}px`, top: `${EDGE.top + t * height}px`, height: `${(b - t) * height}px` });
    return [[l, r], [t, b]];
  };
  board.addEventListener("pointerdown", (event) => { from = at(event); box.hidden = false; paint(from); board.setPointerCapture(event.pointerId); });
  board.addEventListener("pointermove", (event) => from && paint(at(event)));
  board.addEventListener("pointerup", (event) => {
    if (!from) return;
    const [across, down] = paint(at(event));
    from = null;
    box.hidden = true;
    if (!both || across[1] - across[0] > 0.005) done(across, down);
  });
}
