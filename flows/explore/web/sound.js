// Waveform and spectrogram of a clip, drawn from its samples.

import { colour, sized } from "./dom.js";

const WINDOW = 512; // samples of a frame, at any rate
const RANGE = 70; // dB from the loudest to black
const MOST = 1200; // columns

export async function samples(url) {
  const response = await fetch(`${url}&explain=1`);
  if (response.headers.get("content-type") !== "audio/wav") {
    const data = await response.json().catch(() => ({}));
    throw new Error(data.error ?? `the server answered ${response.status}`);
  }
  return decode(await response.arrayBuffer());
}

// Our server sends canonical WAV: 44 bytes, then int16. The browser's decoder would resample it.
function decode(data) {
  const head = new DataView(data);
  const whole = new Int16Array(data.slice(44));
  const found = new Float32Array(whole.length);
  let peak = 0, power = 0;
  for (let i = 0; i < whole.length; i++) {
    const value = whole[i] / 32768;
    found[i] = value;
    peak = Math.max(peak, Math.abs(value));
    power += value * value;
  }
  const decibels = (value) => (value > 0 ? 20 * Math.log10(value) : -Infinity);
  const rms = Math.sqrt(power / Math.max(found.length, 1));
  return { rate: head.getUint32(24, true), values: found, peak: decibels(peak), rms: decibels(rms) };
}

export function wave(node, sound, width, height) {
  sized(node, width, height);
  const draw = node.getContext("2d");
  draw.clearRect(0, 0, width, height);
  draw.fillStyle = colour("--accent");
  const step = sound.values.length / width, middle = height / 2;
  for (let x = 0; x < width; x++) {
    let low = 0, high = 0;
    for (let i = Math.floor(x * step); i < Math.min((x + 1) * step, sound.values.length); i++) {
      if (sound.values[i] < low) low = sound.values[i];
      if (sound.values[i] > high) high = sound.values[i];
    }
    draw.fillRect(x, middle - high * middle, 1, Math.max((high - low) * middle, 1));
  }
}

// In-place radix-2 FFT of WINDOW values.
function fft(re, im) {
  const n = re.length;
  for (let i = 1, j = 0; i < n; i++) {
    let bit = n >> 1;
    for (; j & bit; bit >>= 1) j ^= bit;
    j ^= bit;
    if (i < j) [re[i], re[j]] = [re[j], re[i]];
  }
  for (let size = 2; size <= n; size <<= 1) {
    const half = size >> 1, turn = (-2 * Math.PI) / size;
    for (let k = 0; k < half; k++) {
      const c = Math.cos(turn * k), s = Math.sin(turn * k);
      for (let i = k; i < n; i += size) {
        const j = i + half;
        const a = re[j] * c - im[j] * s, b = re[j] * s + im[j] * c;
        re[j] = re[i] - a; im[j] = im[i] - b;
        re[i] += a; im[i] += b;
      }
    }
  }
}

export function spectrogram(node, sound, width, height) {
  const columns = Math.min(width, MOST), rows = WINDOW / 2;
  const levels = new Float32Array(columns * rows);
  const hann = Float32Array.from({ length: WINDOW }, (_, i) => 0.5 - 0.5 * Math.cos((2 * Math.PI * i) / WINDOW));
  const re = new Float32Array(WINDOW), im = new Float32Array(WINDOW);
  let loudest = 1e-10;
  for (let x = 0; x < columns; x++) {
    const at = Math.round((x * Math.max(sound.values.length - WINDOW, 0)) / Math.max(columns - 1, 1));
    for (let i = 0; i < WINDOW; i++) re[i] = (sound.values[at + i] ?? 0) * hann[i];
    im.fill(0);
    fft(re, im);
    for (let y = 0; y < rows; y++) {
      const power = re[y] * re[y] + im[y] * im[y];
      levels[x * rows + y] = power;
      if (power > loudest) loudest = power;
    }
  }
  const image = new ImageData(columns, rows);
  for (let x = 0; x < columns; x++) {
    for (let y = 0; y < rows; y++) {
      const level = 1 + (10 * Math.log10(Math.max(levels[x * rows + y] / loudest, 1e-10))) / RANGE;
      image.data.set(heat(Math.min(Math.max(level, 0), 1)), 4 * ((rows - 1 - y) * columns + x));
    }
  }
  const exact = document.createElement("canvas");
  exact.width = columns; exact.height = rows;
  exact.getContext("2d").putImageData(image, 0, 0);
  sized(node, width, height);
  node.getContext("2d").drawImage(exact, 0, 0, width, height);
}

// Black, violet, orange, white: lightness rises evenly, also for the colour-blind.
const STOPS = [[10, 8, 24], [87, 20, 110], [188, 55, 84], [246, 141, 50], [252, 255, 200]];
function heat(level) {
  const place = level * (STOPS.length - 1), low = Math.min(Math.floor(place), STOPS.length - 2), part = place - low;
  return [0, 1, 2].map((i) => STOPS[low][i] + part * (STOPS[low + 1][i] - STOPS[low][i])).concat(255);
}
