// Views with names: what stands after `#`, kept in this browser, and a link that carries the name.

import { el } from "./dom.js";
import * as state from "./state.js";

const read = (key) => {
  try {
    const list = JSON.parse(localStorage.getItem(key) ?? "[]");
    return Array.isArray(list) ? list.filter((each) => typeof each?.name === "string" && typeof each?.view === "string") : [];
  } catch {
    return [];
  }
};

export function draw(node, about) {
  const key = `views of ${about.out}`;
  const name = state.get("name");
  document.title = `${name ? `${name} – ` : ""}${about.out} – uttermill explorer`;
  const saved = read(key);
  const store = (list) => {
    localStorage.setItem(key, JSON.stringify(list));
    draw(node, about);
  };
  const box = el("input", { "aria-label": "Name of this view", placeholder: "name of this view", value: name, maxLength: 80 });
  const save = (event) => {
    event.preventDefault();
    const title = box.value.trim();
    if (!title) return;
    const view = state.params();
    view.set("name", title);
    store([...saved.filter((each) => each.name !== title), { name: title, view: view.toString() }]);
    state.set({ name: title }, { keepPage: true });
  };
  node.replaceChildren(
    el("summary", {}, name ? `view: ${name}` : "views"),
    el("ul", {},
      saved.map((each) => el("li", { class: "line" },
        el("a", { href: `#${each.view}` }, el("bdi", {}, each.name)), el("span", { class: "grow" }),
        el("button", { type: "button", "aria-label": `forget ${each.name}`, onclick: () => store(saved.filter((other) => other !== each)) }, "×"))),
      el("li", {}, el("form", { class: "line", onsubmit: save }, box, el("button", {}, "Save")))));
}
