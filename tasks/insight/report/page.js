// Draws the histograms, moves limits, chooses clips. No library, no network, no markup from data.
"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const SVG = "http://www.w3.org/2000/svg";
  const WIDTH = 320, TOP = 16, BASE = 128;

  const number = (value) => {
    const size = Math.abs(value);
    if (value !== 0 && (size < 1e-3 || size >= 1e6)) return value.toPrecision(3);
    return size >= 1000 ? Math.round(value).toLocaleString("en") : String(Number(value.toPrecision(4)));
  };
  const length = (hours) => {
    const [value, unit] = hours >= 1 ? [hours, "h"] : hours * 60 >= 1 ? [hours * 60, "min"] : [hours * 3600, "s"];
    const digits = value >= 100 ? 0 : value >= 10 ? 1 : 2;
    return `${value.toLocaleString("en", { maximumFractionDigits: digits })} ${unit}`;
  };
  const draw = (parent, name, attributes, text) => {
    const node = document.createElementNS(SVG, name);
    for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
    if (text !== undefined) node.textContent = text;
    parent.append(node);
    return node;
  };

  let group = { kind: "all", name: "" };
  const charts = [];

  class Chart {
    constructor(figure, measure) {
      this.measure = measure;
      this.svg = figure.querySelector("svg");
      this.sliders = [...figure.querySelectorAll("input[type=range]")].map((input) => {
        const slider = {
          input, curve: measure.curves[Number(input.dataset.curve)],
          output: input.parentElement.querySelector(".value"),
          effect: input.parentElement.querySelector(".effect"),
        };
        input.value = slider.curve.at;
        input.addEventListener("input", () => { this.tell(slider); this.draw(); changed(); });
        this.tell(slider);
        return slider;
      });
      this.draw();
    }

    x(value) {
      const { low, high } = this.measure;
      return Math.min(Math.max((value - low) / (high - low), 0), 1) * WIDTH;
    }

    // The histogram of the chosen group, and every limit as it is and as it was moved.
    draw() {
      this.svg.replaceChildren();
      const found = this.measure.groups.find((g) => g.kind === group.kind && g.name === group.name);
      const bars = found ? found.kept.map((kept, i) => [kept, found.other[i]]) : [];
      const most = Math.max(...bars.map(([a, b]) => a + b), 0);
      const step = WIDTH / (bars.length || 1);
      bars.forEach(([kept, other], i) => {
        const scale = (BASE - TOP) / (most || 1);
        const [k, o] = [kept * scale, other * scale];
        const place = { x: (i * step + 0.5).toFixed(2), width: (step - 1).toFixed(2) };
        if (o > 0) draw(this.svg, "rect", { class: "o", ...place, y: (BASE - k - o).toFixed(2), height: o.toFixed(2) });
        if (k > 0) draw(this.svg, "rect", { class: "k", ...place, y: (BASE - k).toFixed(2), height: k.toFixed(2) });
      });
      draw(this.svg, "line", { class: "axis", x1: 0, x2: WIDTH, y1: BASE, y2: BASE });
      const { low, high } = this.measure;
      for (const [value, anchor] of [[low, "start"], [(low + high) / 2, "middle"], [high, "end"]]) {
        draw(this.svg, "text", { x: this.x(value), y: BASE + 14, "text-anchor": anchor }, number(value));
      }
      draw(this.svg, "text", { x: 0, y: 10 }, most ? `${length(most)} in the highest bar` : "no utterance here has a value");
      for (const slider of this.sliders) {
        const now = slider.curve.positions[Number(slider.input.value)];
        if (slider.curve.today !== null) this.line("today", slider.curve.today);
        if (Number(slider.input.value) !== slider.curve.at && now !== null) this.line("moved", now);
      }
    }

    // A limit far from all values is named beside its slider only.
    line(kind, value) {
      if (value < this.measure.low || value > this.measure.high) return;
      const x = Math.min(Math.max(this.x(value), 1), WIDTH - 1);
      draw(this.svg, "line", { class: kind, x1: x, x2: x, y1: TOP - 2, y2: BASE });
    }

    tell({ input, curve, output, effect }) {
      const at = Number(input.value), value = curve.positions[at];
      output.textContent = value === null ? "any" : number(value);
      const hours = curve.hours[at] - curve.hours[curve.at], items = curve.items[at] - curve.items[curve.at];
      const sign = hours < 0 || items < 0 ? "−" : "+";
      const change = at === curve.at ? "as it is"
        : hours === 0 && items === 0 ? "no change"
        : `${sign}${length(Math.abs(hours))}, ${sign}${Math.abs(items).toLocaleString("en")} ${Math.abs(items) === 1 ? "utterance" : "utterances"}`;
      const kept = length(curve.hours[at]);
      const bold = document.createElement("b");
      bold.textContent = kept;
      effect.replaceChildren("keeps ", bold, ` (${change})`);
      input.setAttribute("aria-valuetext", `${output.textContent}: keeps ${kept}, ${change}`);
    }

    reset() {
      for (const slider of this.sliders) { slider.input.value = slider.curve.at; this.tell(slider); }
      this.draw();
    }
  }

  const reset = document.getElementById("reset");
  const changed = () => {
    reset.disabled = charts.every((c) => c.sliders.every((s) => Number(s.input.value) === s.curve.at));
  };
  for (const measure of data.measures || []) {
    charts.push(new Chart(document.querySelector(`figure[data-measure="${CSS.escape(measure.name)}"]`), measure));
  }
  reset?.addEventListener("click", () => { charts.forEach((c) => c.reset()); changed(); });
  document.getElementById("group")?.addEventListener("change", (event) => {
    const { kind = "all", name = "", known = "1" } = event.target.selectedOptions[0].dataset;
    group = { kind, name: known === "1" ? name : null };
    charts.forEach((c) => c.draw());
  });

  // Agreement: what a limit keeps, and the word error rate of that; axes of three numbers each.
  const LEFT_OF = 44, RIGHT = WIDTH - 6, FLOOR = 156, TOP_OF = 10;
  const plot = (svg, [low, high], most, unit, shown) => {
    const x = (value) => LEFT_OF + (value - low) / (high - low || 1) * (RIGHT - LEFT_OF);
    const y = (value) => FLOOR - value / (most || 1) * (FLOOR - TOP_OF);
    for (const part of [0, 0.5, 1]) {
      const height = y(part * most);
      draw(svg, "line", { class: part ? "rule" : "axis", x1: LEFT_OF, x2: RIGHT, y1: height, y2: height });
      draw(svg, "text", { x: LEFT_OF - 6, y: height + 4, "text-anchor": "end" }, `${number(100 * part * most)} %`);
      const place = low + part * (high - low);
      draw(svg, "text", { x: x(place), y: FLOOR + 14, "text-anchor": ["start", "middle", "end"][2 * part] }, shown(place));
    }
    draw(svg, "text", { x: (LEFT_OF + RIGHT) / 2, y: FLOOR + 29, "text-anchor": "middle" }, unit);
    return [x, y];
  };
  const steps = (points) => points.map(([x, y]) => `${x.toFixed(2)},${y.toFixed(2)}`).join(" ");
  const percent = (value) => `${number(100 * value)} %`;
  const nice = (value) => {
    const power = 10 ** Math.floor(Math.log10(value));
    return [1, 2, 4, 5, 6, 8].map((times) => times * power).find((found) => found >= value) ?? 10 * power;
  };
  for (const line of data.agreeing || []) {
    const svg = document.querySelector(`figure[data-kept="${line.name}"] svg`);
    // Disagreement grows to the right, and so does what is kept; of log-probabilities the high ones come first.
    const turned = line.name === "agreement" ? (value) => 1 - value : (value) => -value;
    const known = line.limit.flatMap((limit, i) => limit === null ? [] : [[turned(limit), line.kept[i]]]);
    const ends = [known[0][0], known.at(-1)[0]];
    if (line.name === "agreement") ends[0] = 0;
    if (ends[0] === ends[1]) ends[1] += 1;
    const shown = line.name === "agreement" ? percent : (value) => String(Number((-value || 0).toPrecision(2)));
    const [x, y] = plot(svg, ends, 1, line.name === "agreement" ? "disagreement" : "log-probability", shown);
    draw(svg, "polyline", { class: `line-${line.name}`, points: steps(known.map(([value, kept]) => [x(value), y(kept)])) });
    if (line.today !== null && turned(line.today) >= ends[0] && turned(line.today) <= ends[1]) {
      draw(svg, "line", { class: "today", x1: x(turned(line.today)), x2: x(turned(line.today)), y1: TOP_OF, y2: FLOOR });
    }
  }
  const rates = document.querySelector("#kept-wer svg");
  if (rates) {
    const most = Math.max(...data.agreeing.flatMap((line) => line.wer), 1e-3);
    const [x, y] = plot(rates, [0, 1], nice(most), "of the hours kept", percent);
    for (const line of data.agreeing) {
      const points = line.wer.flatMap((wer, i) => wer === null ? [] : [[x(line.kept[i]), y(wer)]]);
      draw(rates, "polyline", { class: `line-${line.name}`, points: steps(points) });
      const at = line.today === null ? -1 : line.limit.findLastIndex((limit) => limit !== null && limit >= line.today);
      if (at >= 0 && line.wer[at] !== null) draw(rates, "circle", { cx: x(line.kept[at]), cy: y(line.wer[at]), r: 4 });
    }
  }

  // Workers: busy ones of each stage stacked over time; one line for what each worker did.
  if (data.work) {
    const { seconds, busy, lanes } = data.work;
    const FULL = 960, LEFT = 110, LOW = 150, HIGH = 18;
    const clock = (value) => value >= 7200 ? `${Number((value / 3600).toPrecision(3))} h`
      : value >= 120 ? `${Number((value / 60).toPrecision(3))} min` : `${Number(value.toPrecision(3))} s`;
    const bins = busy[0].mean.length, step = (FULL - LEFT) / bins;
    const sums = busy[0].mean.map((_, i) => busy.reduce((sum, each) => sum + each.mean[i], 0));
    const most = Math.max(...sums, 1);
    const chart = document.getElementById("use-busy");
    const below = new Array(bins).fill(LOW);
    for (const { stage, mean } of busy) {
      mean.forEach((value, i) => {
        const height = value / most * (LOW - HIGH);
        if (height < 0.05) return;
        below[i] -= height;
        draw(chart, "rect", { class: `s-${stage}`, x: (LEFT + i * step).toFixed(2), width: (step + 0.2).toFixed(2), y: below[i].toFixed(2), height: height.toFixed(2) });
      });
    }
    draw(chart, "line", { class: "axis", x1: LEFT, x2: FULL, y1: LOW, y2: LOW });
    draw(chart, "text", { x: LEFT - 6, y: HIGH + 4, "text-anchor": "end" }, `${Number(most.toPrecision(2))} at once`);
    draw(chart, "text", { x: LEFT - 6, y: LOW, "text-anchor": "end" }, "0");
    for (const [part, anchor] of [[0, "start"], [0.5, "middle"], [1, "end"]]) {
      draw(chart, "text", { x: LEFT + part * (FULL - LEFT), y: LOW + 16, "text-anchor": anchor }, clock(part * seconds));
    }
    const table = document.getElementById("use-lanes");
    lanes.forEach((lane, i) => {
      const y = 20 * i + 3;
      const label = lane.worker.length > 16 ? `${lane.worker.slice(0, 15)}…` : lane.worker;
      draw(table, "text", { x: LEFT - 6, y: y + 11, "text-anchor": "end" }, label);
      draw(table, "rect", { class: "idle", x: LEFT, width: FULL - LEFT, y: y + 6, height: 2 });
      for (const [from, to, stage] of lane.spans) {
        draw(table, "rect", { class: `s-${stage}`, x: (LEFT + from * step).toFixed(2), width: ((to - from) * step).toFixed(2), y, height: 14 });
      }
    });
  }

  const reason = document.getElementById("reason");
  const rows = [...document.querySelectorAll("tr[data-reason]")];
  const choose = () => {
    const places = reason.selectedOptions[0].dataset.rows;
    const shown = places ? JSON.parse(places).map((place) => rows[place]) : rows;
    for (const row of rows) {
      row.hidden = !shown.includes(row);
      if (row.hidden) row.querySelector("audio")?.pause();
    }
    for (const row of shown) row.parentElement.append(row);  // the worst of this reason first
    document.getElementById("count").textContent = `${shown.length} shown`;
  };
  if (reason) {
    reason.addEventListener("change", choose);
    for (const link of document.querySelectorAll("a[data-reason]")) {
      link.addEventListener("click", () => { reason.value = link.dataset.reason; choose(); });
    }
    if (reason.options.length > 1) reason.selectedIndex = 1;  // all of them are a long page
    choose();
  }
  // A heading sorts its table, and sorts it the other way round when it is asked again.
  for (const table of document.querySelectorAll("table.sortable")) {
    const heads = [...table.tHead.rows[0].cells];
    heads.forEach((head, column) => head.firstElementChild.addEventListener("click", () => {
      const way = head.getAttribute("aria-sort") === "ascending" ? -1 : 1;
      for (const other of heads) other.setAttribute("aria-sort", "none");
      head.setAttribute("aria-sort", way === 1 ? "ascending" : "descending");
      const text = (row) => row.cells[column].textContent;
      table.tBodies[0].append(...[...table.tBodies[0].rows].sort((a, b) => way * text(a).localeCompare(text(b))));
    }));
  }
  // One clip at a time.
  document.addEventListener("play", (event) => {
    for (const other of document.querySelectorAll("audio")) if (other !== event.target) other.pause();
  }, true);
})();
