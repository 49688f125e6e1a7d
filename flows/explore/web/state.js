// The view lives in the address, after `#`, so that it can be sent to a colleague.

const listeners = [];
const DATA = ["q", "regex", "spans", "sort"];
const FILTER = /^(in|min|max|below)\.|^(word|character)$/;
let version = null; // that the page shows

export const showing = (number) => { version = number; };

export const params = () => new URLSearchParams(location.hash.slice(1));

export function get(name, otherwise = "") {
  return params().get(name) ?? otherwise;
}

// Changes is {name: value}; null removes, an array gives several values.
export function set(changes, { replace = false, keepPage = false } = {}) {
  const now = params();
  const before = now.toString();
  for (const [name, value] of Object.entries(changes)) {
    now.delete(name);
    if (Array.isArray(value)) value.forEach((each) => now.append(name, each));
    else if (value !== null && value !== "" && value !== undefined) now.set(name, value);
  }
  if (!keepPage && !("page" in changes)) now.delete("page");
  if (now.toString() === before) return;
  const address = `${location.pathname}#${now}`;
  if (replace) history.replaceState(null, "", address);
  else history.pushState(null, "", address);
  changed(new Set(Object.keys(changes)));
}

function changed(names) {
  for (const listener of listeners) listener(names);
}

export function watch(listener) {
  listeners.push(listener);
}

window.addEventListener("popstate", () => changed(new Set(["*"])));
window.addEventListener("hashchange", () => changed(new Set(["*"])));

const isFilter = (name) => DATA.includes(name) || FILTER.test(name);

// The parameters of a request: the filters of this view and `more`. The version is always among
// them: items have other numbers in another one, and a run may publish one at any time.
export function query(more = {}, { without = [] } = {}) {
  const asked = new URLSearchParams({ version });
  for (const [name, value] of params()) {
    if (isFilter(name) && !without.includes(name)) asked.append(name, value);
  }
  for (const [name, value] of Object.entries(more)) {
    if (value !== null && value !== undefined && value !== "") asked.set(name, value);
  }
  return asked;
}

export function filters() {
  return [...params()].filter(([name]) => FILTER.test(name));
}
