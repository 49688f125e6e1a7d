// Loudness over a clip: K-weighted power of 400 ms, every 100 ms, in LUFS (ITU-R BS.1770-5), and the
// gated loudness of the whole.

import { colour, sized } from "./dom.js";

const WINDOW = 0.4, HOP = 0.1; // s
const SILENCE = -70; // LUFS; quieter windows do not count
const TOP = 0, FLOOR = -60; // LUFS of the drawing

// Coefficients for any rate, from the analogue prototypes of the filters that BS.1770 gives at 48 kHz.
function weighting(rate) {
  const second = (frequency, q) => {
    const k = Math.tan((Math.PI * frequency) / rate);
    return { k, q: k / q, a0: 1 + k / q + k * k };
  };
  const s = second(1681.974450955533, 0.7071752369554196);
  const high = 10 ** (3.999843853973347 / 20), band = high ** 0.4996667741545416;
  const p = second(38.13547087602444, 0.5003270373238773);
  return [
    [(high + band * s.q + s.k ** 2) / s.a0, (2 * (s.k ** 2 - high)) / s.a0, (high - band * s.q + s.k ** 2) / s.a0,
      (2 * (s.k ** 2 - 1)) / s.a0, (1 - s.q + s.k ** 2) / s.a0],
    [1, -2, 1, (2 * (p.k ** 2 - 1)) / p.a0, (1 - p.q + p.k ** 2) / p.a0],
  ];
}

function filtered(values, [b0, b1, b2, a1, a2]) {
  const found = new Float64Array(values.length);
  let x1 = 0, x2 = 0, y1 = 0, y2 = 0;
  for (let i = 0; i < values.length; i++) {
    const y = b0 * values[i] + b1 * x1 + b2 * x2 - a1 * y1 - a2 * y2;
    x2 = x1; x1 = values[i];
    y2 = y1; y1 = y;
    found[i] = y;
  }
  return found;
}

const level = (power) => -0.691 + 10 * Math.log10(power);
const mean = (some) => some.reduce((sum, each) => sum + each, 0) / some.length;

// `curve`: [{at, level}], `at` the middle of a window in seconds; `whole`: null where all is silence.
export function loudness({ values, rate }) {
  const weighted = weighting(rate).reduce(filtered, values);
  const sums = new Float64Array(weighted.length + 1);
  for (let i = 0; i < weighted.length; i++) sums[i + 1] = sums[i] + weighted[i] ** 2;
  const size = Math.min(Math.round(WINDOW * rate), weighted.length), hop = Math.max(Math.round(HOP * rate), 1);
  const powers = [];
  for (let from = 0; size && from + size <= weighted.length; from += hop) powers.push((sums[from + size] - sums[from]) / size);
  const curve = powers.map((power, index) => ({ at: (index * hop + size / 2) / rate, level: level(power) }));
  const heard = powers.filter((power) => level(power) > SILENCE);
  const gate = heard.length ? level(mean(heard)) - 10 : 0;
  const counted = heard.filter((power) => level(power) > gate);
  return { curve, whole: counted.length ? level(mean(counted)) : null };
}

export function draw(node, { curve }, seconds, width, height) {
  sized(node, width, height);
  const pen = node.getContext("2d");
  const y = (value) => 2 + ((TOP - Math.max(value, FLOOR)) / (TOP - FLOOR)) * (height - 4);
  pen.font = "10px system-ui";
  pen.strokeStyle = colour("--line");
  pen.fillStyle = colour("--quiet");
  for (const value of [-20, -40]) {
    pen.beginPath(); pen.moveTo(0, y(value)); pen.lineTo(width, y(value)); pen.stroke();
    pen.fillText(`${value} LUFS`, 3, y(value) - 2);
  }
  pen.strokeStyle = colour("--limit");
  pen.lineWidth = 1.5;
  pen.beginPath();
  for (const { at, level: value } of curve) pen.lineTo((at / seconds) * width, y(value));
  pen.stroke();
}
