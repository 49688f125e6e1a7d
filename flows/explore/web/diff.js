// Two texts word by word (character by character where a script has no spaces), by the longest
// common subsequence.

import { el } from "./dom.js";

const UNSPACED = /[\u3040-\u30ff\u3400-\u9fff\u0e00-\u0eff]/;
const same = (word) => word.toLowerCase().replace(/[^\p{L}\p{N}']/gu, "") || word;

export function units(text) {
  return UNSPACED.test(text) ? [...text.replace(/\s+/g, "")] : text.split(/\s+/).filter(Boolean);
}

export function steps(from, to) {
  const a = units(from), b = units(to);
  if (a.length * b.length > 4e6) return [["-", from], ["+", to]];
  const x = a.map(same), y = b.map(same);
  const long = Array.from({ length: a.length + 1 }, () => new Uint16Array(b.length + 1));
  for (let i = a.length - 1; i >= 0; i--) {
    for (let j = b.length - 1; j >= 0; j--) {
      long[i][j] = x[i] === y[j] ? long[i + 1][j + 1] + 1 : Math.max(long[i + 1][j], long[i][j + 1]);
    }
  }
  const found = [];
  let i = 0, j = 0;
  while (i < a.length || j < b.length) {
    if (i < a.length && j < b.length && x[i] === y[j]) found.push(["=", b[j]]), i++, j++;
    else if (j >= b.length || (i < a.length && long[i + 1][j] >= long[i][j + 1])) found.push(["-", a[i++]]);
    else found.push(["+", b[j++]]);
  }
  return found;
}

export function shown(from, to) {
  const gap = UNSPACED.test(from + to) ? "" : " ";
  const tags = { "=": "span", "-": "del", "+": "ins" };
  return el("p", { class: "diff", dir: "auto" }, steps(from, to).map(([kind, word]) => el(tags[kind], {}, word + gap)));
}
