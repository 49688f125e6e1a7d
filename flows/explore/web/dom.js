// Elements without markup: every text is a text node, so that no name of a file can be HTML.

export function el(tag, props = {}, ...children) {
  const node = document.createElement(tag);
  for (const [key, value] of Object.entries(props)) {
    if (value === undefined || value === null || value === false) continue;
    if (key.startsWith("on")) node.addEventListener(key.slice(2), value);
    else if (key === "class") node.className = value;
    else if (key === "style") Object.assign(node.style, value);
    else if (key in node && key !== "list" && !key.startsWith("aria")) node[key] = value;
    else node.setAttribute(key, value === true ? "" : value);
  }
  node.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== false));
  return node;
}

export const $ = (id) => document.getElementById(id);

export function number(value, unit = "") {
  if (value === null || value === undefined) return "";
  if (Number.isInteger(value)) return value.toLocaleString("en");
  const size = Math.abs(value);
  const text = size >= 1e5 || size < 1e-3 ? value.toExponential(2) : String(Number(value.toPrecision(4)));
  return unit && unit !== "1" ? `${text} ${unit}` : text;
}

// "1 clip", "2,000 clips".
export const amount = (count, one) => `${number(count)} ${one}${count === 1 ? "" : "s"}`;

// To the second, rounded as the commands round.
export function clock(seconds) {
  const whole = Math.round(seconds);
  const parts = [Math.floor(whole / 3600), Math.floor(whole / 60) % 60, whole % 60];
  const [h, m, s] = parts.map((part) => String(part).padStart(2, "0"));
  return parts[0] ? `${parts[0]}:${m}:${s}` : `${Number(m)}:${s}`;
}

// To the hundredth, for places in a recording.
export function time(seconds) {
  const hundredths = Math.round(seconds * 100);
  return `${clock(Math.floor(hundredths / 100))}.${String(hundredths % 100).padStart(2, "0")}`;
}

export function hours(value) {
  return value >= 10 ? `${number(Math.round(value * 10) / 10)} h` : clock(value * 3600);
}

export function say(text) {
  $("live").textContent = text;
}

export function fault(error) {
  const box = $("fault");
  box.hidden = !error;
  box.textContent = error ? (error.message ?? String(error)) : "";
}

// The value of a CSS variable, for canvases.
export const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

export function sized(node, width, height) {
  const dense = Math.min(window.devicePixelRatio || 1, 2);
  node.width = Math.round(width * dense);
  node.height = Math.round(height * dense);
  node.style.height = `${height}px`;
  node.getContext("2d").setTransform(dense, 0, 0, dense, 0, 0);
  return node;
}
