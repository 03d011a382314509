// The live crossover: sliders move stops, stops move curves, sentence and parts; on release Python gets the values.

const { search: version } = new URL(import.meta.url); // a new version is not to be taken from the browser's store
const [numbers, chart] = await Promise.all([import(`./numbers.js${version}`), import(`./chart.js${version}`)]);
const { opened, moved, coefficient, seconds, part, crossing, significant, scaled } = numbers;
const { Chart, decades } = chart;

const SETTLED_MS = 150; // a key held down is one move, not twenty
const PARTS = {
  swap: ["out", "in", "copy_rest"],
  recompute: ["matrix", "attention", "compute_rest"],
  offload: ["in", "load_rest"],
};
const mounted = new WeakMap();

export default async function ({ data: [data], parentElement, setStateValue }) {
  const live = mounted.get(parentElement) ?? new Live(parentElement);
  mounted.set(parentElement, live);
  live.send = (values) => setStateValue("chosen", values);
  live.latest = data;
  const taken = await opened(data);
  if (live.latest === data) live.take(taken);
  return () => {
    live.resized.disconnect();
    mounted.delete(parentElement);
  };
}

class Live {
  constructor(root) {
    this.root = root.querySelector(".live");
    this.sent = 0; // the turn of the last values sent to Python
    this.held = null; // the slider under the hand
    this.frame = 0;
    this.resized = new ResizeObserver(() => this.data && this.fit());
    const plot = this.find(".plot");
    plot.addEventListener("pointerdown", (event) => this.grasp(plot, event));
    plot.addEventListener("pointermove", (event) => this.held === plot && this.pull(event));
    for (const ended of ["pointerup", "pointercancel"]) plot.addEventListener(ended, () => this.held === plot && this.release());
  }

  find(selector) { return this.root.querySelector(selector); }
  input(name) { return this.root.querySelector(`input[name=${name}]`); }

  // New data from Python: its stops hold, unless the reader has moved on since the values that it answers.
  take(data) {
    const late = this.data && (data.turn ?? 0) < this.sent;
    const kept = {};
    for (const name of Object.keys(data.sliders)) {
      const own = this.data && this.data.sliders[name].values[this.stops[name]];
      const same = data.sliders[name].values.indexOf(own);
      kept[name] = (late || this.held === name) && same >= 0 ? same : data.sliders[name].chosen;
    }
    const redrawn = !this.data || JSON.stringify(this.data.strategies) !== JSON.stringify(data.strategies);
    this.data = data;
    this.stops = kept;
    this.root.setAttribute("aria-label", data.texts.group);
    for (const { name, color } of data.strategies) this.root.style.setProperty(`--${name}`, this.color(color));
    for (const shade of ["muted", "grid"]) this.root.style.setProperty(`--${shade}`, this.shade(shade));
    this.buildSliders();
    if (redrawn) {
      this.chart = new Chart(this.find(".plot"), data);
      this.buildParts();
    }
    this.resized.observe(this.root);
    this.span = undefined;
    this.fit();
    this.say();
  }

  // Category n of the page's palette, light or dark.
  color(index) {
    return getComputedStyle(this.root).getPropertyValue("--st-chart-categorical-colors").split(",")[index];
  }

  shade(name) {
    const share = { muted: 72, grid: 14 }[name];
    return `color-mix(in srgb, var(--st-text-color) ${share}%, var(--st-background-color))`;
  }

  fit() {
    this.view = this.look();
    this.span = decades(Object.values(this.view.curves), this.span);
    this.chart.fit(this.data, this.span);
    this.draw();
  }

  // All that is shown for the stops; null while Python has not answered for two sliders that go alone.
  look() {
    const { data, stops } = this, slider = moved(data, stops);
    if (slider === null) return null;
    const lengths = slider === "tokens" ? data.lengths : data.sparse.map((index) => data.lengths[index]);
    const here = slider === "tokens" ? stops.tokens : data.sparse.indexOf(stops.tokens);
    const curves = {}, delays = {}, delayTexts = {};
    for (const { name } of data.strategies) {
      curves[name] = seconds(data, name, stops, slider);
      delays[name] = curves[name][here];
      delayTexts[name] = scaled(delays[name], data.units);
    }
    const tokens = data.lengths[stops.tokens];
    const even = data.regular.map((index) => (slider === "tokens" ? index : data.sparse.indexOf(index)));
    const at = even.map((index) => lengths[index]);
    const [swap, recompute] = ["swap", "recompute"].map((name) => even.map((index) => curves[name][index]));
    const meets = crossing(at, swap, recompute, tokens);
    const moves = ["out", "in", "in_small"].map((term) => part(data, "swap", term, stops, slider) / (coefficient(data, term, stops) || 1));
    return {
      slider, lengths, curves, delays, delayTexts, tokens, meets,
      tokensText: this.text("tokens"),
      meetsText: meets === null ? "" : `${data.texts["mark.equal"]} ≈ ${significant(meets, 2)}`,
      meetsDelay: meets === null ? 0 : this.between(at, recompute, meets),
      bytes: moves.reduce((sum, moved) => sum + moved, 0),
    };
  }

  between(x, y, where) {
    const right = Math.max(x.findIndex((value) => value >= where), 1), left = right - 1;
    const share = Math.log(where / x[left]) / Math.log(x[right] / x[left]);
    return Math.exp(Math.log(y[left]) + share * Math.log(y[right] / y[left]));
  }

  draw() {
    for (const name of Object.keys(this.stops)) this.label(name);
    const view = this.look();
    this.root.classList.toggle("waiting", view === null);
    this.root.setAttribute("aria-busy", String(view === null));
    if (view === null) return;
    this.view = view;
    const span = decades(Object.values(view.curves), this.span);
    if (span[0] !== this.span[0] || span[1] !== this.span[1]) this.chart.fit(this.data, (this.span = span));
    this.chart.draw(this.data, view);
    this.fill(this.find(".say"), this.sentences());
    this.drawParts();
    this.marks();
  }

  // Sections of prose and their numbers: who wins, whether that can be told, and what turns it.
  sentences() {
    const { data, view, stops } = this, { swap, recompute } = view.delays;
    const [swapBand, recomputeBand] = ["swap", "recompute"].map((name) => data.bands[name]);
    const swapWins = swap < recompute;
    const [less, lessBand, more, moreBand] = swapWins
      ? [swap, swapBand, recompute, recomputeBand] : [recompute, recomputeBand, swap, swapBand];
    const close = more * (1 - moreBand) <= less * (1 + lessBand);
    const has = (name) => data.strategies.some((each) => each.name === name && !each.absent);
    const rate = (seconds) => `${significant(view.bytes / seconds / data.rate[0], 2)} ${data.rate[1]}`;
    const preemptions = data.sliders.preemptions.values[stops.preemptions];
    return {
      sections: [
        !has("swap") && "say.no_swap",
        recompute === 0 ? "say.nothing" : close ? "say.close" : swapWins ? "say.swap" : "say.recompute",
        recompute > 0 && (swapWins ? "say.below" : "say.above"),
        has("offload") && "say.offload",
        preemptions > 1 && "say.many",
      ].filter(Boolean),
      numbers: {
        ...view.delayTexts,
        tokens: data.sliders.tokens.texts[stops.tokens],
        kv: data.kv[stops.tokens],
        factor: data.texts["unit.times"].replace("[[times]]", significant(more / less, 2)),
        effective: rate(swap),
        even: rate(recompute),
        preemptions: String(preemptions),
      },
    };
  }

  // Prose into an element: ** makes bold, a strategy's number has its colour. The same sentence only changes its numbers.
  fill(element, { sections, numbers }) {
    const words = sections.map((section) => this.data.texts[section]).join(" ");
    if (element.words !== words) this.write(element, words);
    for (const number of element.querySelectorAll("span")) {
      const text = numbers[number.className].replace(" ", "\u00a0");
      if (number.textContent !== text) number.textContent = text;
    }
  }

  write(element, words) {
    element.words = words;
    element.replaceChildren();
    let parent = element;
    for (const piece of words.split(/(\*\*|\[\[\w+\]\])/)) {
      const name = /^\[\[(\w+)\]\]$/.exec(piece)?.[1];
      if (piece === "**") parent = parent === element ? element.appendChild(document.createElement("strong")) : element;
      else if (!name) parent.append(piece);
      else parent.appendChild(document.createElement("span")).className = name;
    }
  }

  // What a screen reader hears once the hand rests, and what it finds in place of the chart.
  say() {
    if (!this.view) return;
    const text = this.find(".say").textContent, { meets } = this.view, { texts } = this.data;
    const crossed = meets === null ? texts["alt.no_crossing"] : texts["alt.crossing"].replace("[[crossing]]", significant(meets, 2));
    this.find(".heard").textContent = text;
    this.find("svg").setAttribute("aria-label", `${texts["alt.chart"]} ${text} ${crossed}`);
  }

  buildSliders() {
    const host = this.find(".sliders");
    for (const [name, { texts }] of Object.entries(this.data.sliders)) {
      const field = this.input(name) ?? this.addSlider(host, name);
      field.max = texts.length - 1;
      field.value = this.stops[name];
      field.closest(".slider").hidden = !this.data.shown.includes(name);
      field.closest(".slider").querySelector("label").textContent = this.data.texts[`slider.${name}`];
    }
  }

  addSlider(host, name) {
    const box = host.appendChild(document.createElement("div"));
    box.className = "slider";
    const id = `live-${name}`;
    box.innerHTML = `<label for="${id}"></label><output for="${id}"></output>`
      + `<input type="range" id="${id}" name="${name}" min="0" step="1"><i class="turn" hidden></i>`;
    const field = box.querySelector("input");
    field.addEventListener("pointerdown", () => (this.held = name));
    field.addEventListener("input", () => this.move(name, Number(field.value)));
    field.addEventListener("change", () => this.release());
    for (const ended of ["pointerup", "pointercancel"]) field.addEventListener(ended, () => this.release());
    return field;
  }

  move(name, stop) {
    this.stops[name] = stop;
    this.input(name).value = stop;
    if (!this.frame) this.frame = requestAnimationFrame(() => { this.frame = 0; this.draw(); });
  }

  grasp(plot, event) {
    if (event.button !== 0 || !this.data.shown.includes("tokens")) return;
    this.held = plot;
    plot.setPointerCapture(event.pointerId);
    this.pull(event);
  }

  pull(event) { this.move("tokens", this.chart.nearest(this.data, event.clientX)); }

  // Send every input that differs from the Case, once the hand rests: not while it has gone on to another slider.
  release() {
    this.held = null;
    clearTimeout(this.timer);
    this.timer = setTimeout(() => {
      if (this.held !== null) return;
      const { sliders } = this.data;
      const values = {};
      for (const [name, stop] of Object.entries(this.stops)) if (stop !== sliders[name].chosen) values[name] = sliders[name].values[stop];
      this.say();
      if (Object.keys(values).length === 0 && (this.data.turn ?? 0) >= this.sent) return;
      this.sent = Date.now();
      this.send({ turn: this.sent, values });
    }, SETTLED_MS);
  }

  // The figure of a slider's stop with its unit, and whether it is the model's own.
  text(name) {
    const { values, texts } = this.data.sliders[name], stop = this.stops[name];
    const templates = [this.data.texts[`unit.${name}`], values[stop] === null && this.data.texts.given];
    return templates.filter(Boolean).reduce((text, template) => template.replace("[[number]]", text), texts[stop]);
  }

  label(name) {
    const field = this.input(name), text = this.text(name);
    field.previousElementSibling.textContent = text;
    field.setAttribute("aria-valuetext", text);
    const share = (100 * this.stops[name]) / Math.max(Number(field.max), 1);
    const grid = "var(--grid)";
    field.style.setProperty("--track", `linear-gradient(to right, var(--st-primary-color) ${share}%, ${grid} ${share}%)`);
  }

  // Where on a slider's way the answer turns, length and rate being the two that go with all others.
  marks() {
    const { data, view, stops } = this, tokens = data.sliders.tokens.values, rates = data.sliders.copy_gb_per_s;
    this.mark("tokens", view.meets === null ? null : this.stopOf(tokens, view.meets));
    const at = rates.figures.map((_, rate) => this.swapAt({ ...stops, copy_gb_per_s: rate }));
    const recompute = rates.figures.map(() => view.delays.recompute);
    const turns = crossing(rates.figures, at, recompute, rates.figures[stops.copy_gb_per_s]);
    this.mark("copy_gb_per_s", turns === null ? null : this.stopOf(rates.figures, turns));
  }

  swapAt(stops) {
    return ["out", "in", "in_small", "next_token", "rest"].reduce((sum, term) => sum + part(this.data, "swap", term, stops, this.view.slider), 0);
  }

  stopOf(figures, wanted) {
    const right = Math.max(figures.findIndex((figure) => figure >= wanted), 1), left = right - 1;
    return left + Math.log(wanted / figures[left]) / Math.log(figures[right] / figures[left]);
  }

  mark(name, stop) {
    const field = this.input(name), mark = field.nextElementSibling;
    mark.hidden = stop === null;
    if (stop !== null) mark.style.left = `calc(9px + (100% - 18px) * ${stop / Math.max(Number(field.max), 1)})`;
  }

  buildParts() {
    const host = this.find(".parts");
    host.replaceChildren();
    for (const { name, label, absent } of this.data.strategies) {
      const row = host.appendChild(document.createElement("div"));
      row.className = absent ? "part absent" : "part";
      row.dataset.strategy = name;
      row.innerHTML = `<span class="name ${name}"></span><span class="bar ${name}" aria-hidden="true">${"<i></i>".repeat(PARTS[name].length)}</span>`
        + `<span class="total ${name}"></span><span class="made"></span>`;
      row.querySelector(".name").textContent = label;
    }
  }

  drawParts() {
    const { data, view } = this, widest = Math.max(...Object.values(view.delays));
    for (const { name, absent } of data.strategies) {
      const row = this.find(`.part[data-strategy=${name}]`), pieces = this.pieces(name);
      row.querySelectorAll("i").forEach((bar, index) => (bar.style.width = `${(100 * pieces[index]) / widest}%`));
      row.querySelector(".total").textContent = view.delayTexts[name];
      const told = pieces.map((value, index) => `${data.texts[`part.${PARTS[name][index]}`]} ${scaled(value, data.units)}`);
      row.querySelector(".made").textContent = (absent ? [data.texts.absent, ...told] : told).join(" · ");
    }
  }

  // Seconds of what a strategy is made of, at the chosen length.
  pieces(name) {
    const { data, stops, view } = this, total = view.delays[name];
    if (name === "recompute") {
      const found = data.parts[view.slider], at = view.slider === "tokens" ? stops.tokens : stops[view.slider];
      const [matrix, attention] = [found.matrix, found.attention].map((array) => data.arrays[array][at]);
      return [matrix, attention, Math.max(total - matrix - attention, 0)];
    }
    const wire = (...terms) => terms.reduce((sum, term) => sum + part(data, name, term, stops, view.slider), 0);
    const out = wire("out"), back = wire("in", "in_small");
    const rest = Math.max(total - out - back, 0);
    return name === "swap" ? [out, back, rest] : [back, rest];
  }
}
