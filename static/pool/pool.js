// The pool player: a slider over time and a clock move one share of the film; all pictures are drawn from it.

const { search: version } = new URL(import.meta.url); // a new version is not to be taken from the browser's store
const { FULL, opened, picture, sum, grouped, filled } = await import(`./film.js${version}`);

const ROWS = 8, ROW_PX = 18, ROW_GAP_PX = 3; // of the pool
const AGAIN_PX = 5; // the mark of a request that was preempted before
const QUEUE_ROWS = 2, QUEUE_PX = 12, WIDEST_PX = 8;
const SPEEDS = [1, 2, 5, 10, 20, 50, 100, 200, 500];
const WATCHED_S = 30; // how long a film should take
const SETTLED_MS = 400;
const STATES = ["prefill", "decode", "recompute", "kept"]; // of a stretch
const SVG = "http://www.w3.org/2000/svg";
const mounted = new WeakMap();

export default function ({ data: [data], parentElement, setStateValue }) {
  const player = mounted.get(parentElement) ?? new Player(parentElement);
  mounted.set(parentElement, player);
  player.send = (seconds) => setStateValue("at", seconds);
  player.take(data);
  return () => {
    player.pause();
    player.resized.disconnect();
    mounted.delete(parentElement);
  };
}

function svg(parent, kind, attributes = {}) {
  const made = parent.appendChild(document.createElementNS(SVG, kind));
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  return made;
}

function element(parent, kind, className = "") {
  const made = parent.appendChild(document.createElement(kind));
  made.className = className;
  return made;
}

function rectangle(x, y, width, height) {
  return `M${x.toFixed(1)} ${y}h${width.toFixed(1)}v${height}h${(-width).toFixed(1)}z`;
}

class Player {
  constructor(root) {
    this.root = root.querySelector(".film");
    this.frame = 0;
    this.settling = 0;
    this.resized = new ResizeObserver(() => this.data && this.fit());
    this.find(".play").addEventListener("click", () => (this.frame ? this.pause() : this.play()));
    const at = this.find(".at");
    at.addEventListener("input", () => { this.pause(); this.move(Number(at.value)); });
    at.addEventListener("change", () => this.settle());
    this.find(".speed").addEventListener("change", (event) => (this.speed = Number(event.target.value)));
  }

  find(selector) { return this.root.querySelector(selector); }

  // New runs from Python; the time stays where the reader has left it.
  take(data) {
    const first = !this.data;
    const spoken = JSON.stringify([data.runs.map((run) => run.name), data.end]);
    this.data = { ...data, runs: data.runs.map(opened) };
    const { texts, runs, colors, end } = this.data;
    this.root.setAttribute("aria-label", texts["film.group"]);
    this.root.style.setProperty("--runs", runs.length);
    for (const [name, index] of Object.entries(colors)) this.root.style.setProperty(`--${name}`, this.color(index));
    for (const [name, share] of Object.entries({ muted: 72, grid: 12, track: 30 })) {
      this.root.style.setProperty(`--${name}`, `color-mix(in srgb, var(--st-text-color) ${share}%, var(--st-background-color))`);
    }
    const at = this.find(".at");
    at.max = end;
    at.step = end > 300 ? Math.ceil(end / 600) : 0.5;
    at.setAttribute("aria-label", texts["film.time"]);
    if (first || spoken !== this.spoken) this.build();
    this.spoken = spoken;
    this.at = Math.min(first ? data.at : this.at, end);
    this.resized.observe(this.root);
    this.fit();
  }

  color(index) {
    return getComputedStyle(this.root).getPropertyValue("--st-chart-categorical-colors").split(",")[index];
  }

  // The parts of the picture that do not depend on the time.
  build() {
    const { runs, texts, end } = this.data;
    const host = this.find(".runs");
    host.replaceChildren();
    this.views = runs.map((run) => {
      const box = element(host, "div", "run");
      element(box, "div", "name").textContent = run.name;
      const counts = element(box, "p", "counts");
      element(box, "p", "part").textContent = texts["film.pool"];
      const pool = svg(box, "svg", { role: "img", class: "pool" });
      const told = element(box, "p", "told");
      element(box, "p", "part").textContent = texts["film.queue"];
      const queue = svg(box, "svg", { role: "img", class: "queue", "aria-hidden": "true" });
      return { box, counts, pool, told, queue };
    });
    this.views.forEach((view, index) => {
      view.pool.addEventListener("pointermove", (event) => this.point(index, event));
      view.pool.addEventListener("pointerleave", () => this.point(index, null));
    });
    const select = this.find(".speed");
    select.setAttribute("aria-label", texts["film.speed"]);
    select.replaceChildren(...SPEEDS.map((speed) => new Option(`${speed}x`, speed)));
    this.speed = SPEEDS.find((speed) => end / speed <= WATCHED_S) ?? SPEEDS.at(-1);
    select.value = this.speed;
    this.find(".play").textContent = texts["film.play"];
    const key = this.find(".key");
    key.replaceChildren();
    for (const state of [...STATES, "again", "free", "preempted", "new"]) {
      const item = element(key, "li");
      svg(svg(item, "svg", { "aria-hidden": "true" }), "rect", { class: state, width: "100%", height: "100%" });
      item.append(texts[`film.key.${state}`]);
    }
  }

  fit() {
    for (const view of this.views) {
      const width = view.box.clientWidth;
      view.width = width;
      for (const [name, rows, px, gap] of [["pool", ROWS, ROW_PX, ROW_GAP_PX], ["queue", QUEUE_ROWS, QUEUE_PX, 2]]) {
        const height = rows * (px + gap);
        view[name].setAttribute("viewBox", `0 0 ${width} ${height}`);
        view[name].style.height = `${height}px`;
      }
    }
    this.drawStrip();
    this.draw();
    this.describe();
  }

  play() {
    if (this.at >= this.data.end) this.at = 0;
    let before = performance.now();
    const step = (now) => {
      this.move(this.at + ((now - before) / 1000) * this.speed);
      before = now;
      if (this.at < this.data.end) this.frame = requestAnimationFrame(step);
      else this.pause();
    };
    this.frame = requestAnimationFrame(step);
    this.find(".play").textContent = this.data.texts["film.pause"];
  }

  pause() {
    if (!this.frame) return;
    cancelAnimationFrame(this.frame);
    this.frame = 0;
    this.find(".play").textContent = this.data.texts["film.play"];
    this.settle();
  }

  move(seconds) {
    this.at = Math.min(Math.max(seconds, 0), this.data.end);
    this.draw();
  }

  // The hand rests: tell a screen reader, and Python, so that a link shows this time.
  settle() {
    clearTimeout(this.settling);
    this.settling = setTimeout(() => {
      this.describe();
      this.send(Math.round(this.at * 100) / 100);
    }, SETTLED_MS);
  }

  draw() {
    const { runs, end, texts } = this.data;
    this.find(".at").value = this.at;
    this.find(".now").textContent = filled(texts["film.now"], { seconds: this.at.toFixed(1) });
    this.here?.setAttribute("d", `M${(1000 * this.at) / end} 0V44`);
    runs.forEach((run, index) => {
      const view = this.views[index];
      view.seen = picture(run, this.at / run.end);
      view.said = this.counts(run, view.seen);
      view.counts.replaceChildren(...view.said.split("**").map((words, place) => {
        if (place % 2 === 0) return words;
        const strong = document.createElement("strong");
        strong.textContent = words;
        return strong;
      }));
      this.drawPool(view, view.seen);
      this.drawQueue(view, view.seen, run);
    });
  }

  counts(run, { held, kept, fresh, preempted }) {
    const { texts } = this.data, over = this.at >= run.end && !run.cut;
    return filled(texts[over ? "film.over" : "film.counts"], {
      running: grouped(held.length),
      again: grouped(held.filter(({ again }) => again).length),
      waiting: grouped(fresh.length + preempted.length),
      preempted: grouped(preempted.length),
      used: Math.min(Math.round((100 * sum(held)) / FULL), 100),
      kept: grouped((sum(kept) / FULL) * run.blocks),
    });
  }

  // The pool as a ribbon in rows: a stretch for each request, neighbours in two shades.
  drawPool(view, { held, kept }) {
    const parts = {};
    view.places = [];
    let start = 0, again = "";
    for (const stretch of [...held, ...kept]) {
      const end = Math.min(start + stretch.blocks / FULL, 1);
      const name = `${stretch.state}${stretch.request % 2 ? " other" : ""}`;
      parts[name] = (parts[name] ?? "") + this.stretch(view, start, end);
      if (stretch.again && stretch.state === "decode") again += this.stretch(view, start, end, AGAIN_PX);
      view.places.push({ ...stretch, start, end });
      start = end;
    }
    const rows = Array.from({ length: ROWS }, (_, row) => rectangle(0, row * (ROW_PX + ROW_GAP_PX), view.width, ROW_PX));
    const paths = [["free", rows.join("")], ...Object.entries(parts), ["again", again]];
    view.pool.replaceChildren();
    for (const [name, d] of paths) svg(view.pool, "path", { class: name, d });
    if (view.pointed !== undefined) this.tell(view);
  }

  // The outline of a stretch, or of so much of it from below.
  stretch(view, start, end, px = ROW_PX) {
    let d = "";
    for (let row = Math.floor(start * ROWS); row < end * ROWS && row < ROWS; row++) {
      const from = Math.max(start * ROWS - row, 0) * view.width, to = Math.min(end * ROWS - row, 1) * view.width;
      const gap = to - from > 3 ? 1 : 0;
      d += rectangle(from, row * (ROW_PX + ROW_GAP_PX) + ROW_PX - px, Math.max(to - from - gap, 0.3), px);
    }
    return d;
  }

  // A mark a waiting request: those preempted before those that are new.
  drawQueue(view, { fresh, preempted }, run) {
    const inRow = Math.max(Math.ceil(run.waitingMost / QUEUE_ROWS), Math.floor(view.width / WIDEST_PX));
    const step = view.width / inRow;
    const d = { preempted: "", new: "" };
    for (let place = 0; place < preempted.length + fresh.length; place++) {
      const row = Math.floor(place / inRow), name = place < preempted.length ? "preempted" : "new";
      d[name] += rectangle((place % inRow) * step, row * (QUEUE_PX + 2), Math.max(step - 1.5, 0.6), QUEUE_PX);
    }
    view.queue.replaceChildren();
    for (const [name, path] of Object.entries(d)) svg(view.queue, "path", { class: name, d: path });
  }

  // Pool usage over the whole time, a mark for each preemption, and where the picture stands.
  drawStrip() {
    const { runs, end } = this.data, strip = this.find(".strip");
    strip.setAttribute("viewBox", "0 0 1000 44");
    strip.setAttribute("preserveAspectRatio", "none");
    strip.replaceChildren();
    const line = { "vector-effect": "non-scaling-stroke" };
    runs.forEach((run, index) => {
      const points = run.usage.map((share, place) => `${((1000 * run.end * place) / (run.usage.length - 1) / end).toFixed(1)} ${(32 - 0.3 * share).toFixed(1)}`);
      const color = this.color(run.color);
      if (index === 0) svg(strip, "path", { class: "area", d: `M0 32L${points.join("L")}V32z`, style: `fill:${color}` });
      svg(strip, "path", { ...line, d: `M${points.join("L")}`, style: `stroke:${color}`, ...(run.dashed && { "stroke-dasharray": "2 3" }) });
      const ticks = [];
      for (let row = 0; row < run.rows; row++) {
        if (run.stays.again[row]) ticks.push(`M${((1000 * run.stays.ready[row] * run.end) / FULL / end).toFixed(1)} ${34 + 5 * index}v4`);
      }
      svg(strip, "path", { ...line, class: "tick", d: ticks.join(""), style: `stroke:${color}` });
    });
    this.here = svg(strip, "path", { ...line, class: "here" });
  }

  point(index, event) {
    const view = this.views[index];
    if (event === null) view.pointed = undefined;
    else {
      const box = view.pool.getBoundingClientRect();
      const row = Math.min(Math.floor((event.clientY - box.top) / (ROW_PX + ROW_GAP_PX)), ROWS - 1);
      view.pointed = (row + (event.clientX - box.left) / box.width) / ROWS;
    }
    this.tell(view);
  }

  // Under the pool: what the pointer is on.
  tell(view) {
    const { texts, runs } = this.data, run = runs[this.views.indexOf(view)];
    const found = view.places.find(({ start, end }) => start <= view.pointed && view.pointed < end);
    view.told.textContent = found ? filled(texts["film.request"], {
      request: grouped(found.request),
      blocks: grouped((found.blocks / FULL) * run.blocks),
      state: texts[`film.key.${found.state}`],
    }) : "";
  }

  // In words, for who cannot see it or only hears it.
  describe() {
    const { texts, runs } = this.data;
    const time = filled(texts["film.now"], { seconds: this.at.toFixed(1) });
    const told = this.views.map((view, index) => `${runs[index].name}: ${view.said.replaceAll("**", "").replaceAll("\n", ", ")}`);
    this.views.forEach((view, index) => view.pool.setAttribute("aria-label", `${texts["film.alt"]} ${time}. ${told[index]}`));
    this.find(".at").setAttribute("aria-valuetext", `${time}. ${told.join(". ")}`);
    this.find(".heard").textContent = `${time}. ${told.join(". ")}`;
  }
}
