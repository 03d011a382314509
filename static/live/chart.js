// The chart as SVG, drawn from the measured width: paths are made once and only moved while a slider is dragged.

const { scaled } = await import(`./numbers.js${new URL(import.meta.url).search}`);

const SVG = "http://www.w3.org/2000/svg";
const TOP = 34, BOTTOM = 40, LEFT = 54, GAP = 15, LETTER = 7.4;
const DASHES = { solid: "", dash: "9 6", dashdot: "9 4 2 4" };

function node(parent, name, attributes = {}, text = "") {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.textContent = text;
  return parent.appendChild(made);
}

function put(element, attributes) {
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
}

// Heights of labels, moved as little as keeps them GAP apart and between `low` and `high`.
function apart(wanted, low, high) {
  const order = wanted.map((_, index) => index).sort((one, other) => wanted[one] - wanted[other]);
  const placed = [...wanted];
  order.forEach((index, rank) => {
    placed[index] = Math.max(placed[index], rank ? placed[order[rank - 1]] + GAP : low);
  });
  [...order].reverse().forEach((index, rank, reversed) => {
    placed[index] = Math.min(placed[index], rank ? placed[reversed[rank - 1]] - GAP : high);
  });
  return placed;
}

// Whole decades that hold the curves; those held before are kept unless they are far too many.
export function decades(curves, before) {
  const known = curves.flatMap((curve) => [...curve].filter((value) => value > 0 && Number.isFinite(value)));
  let low = Math.floor(Math.log10(Math.min(...known)) + 0.02), high = Math.ceil(Math.log10(Math.max(...known)) - 0.02);
  if (high <= low) high = low + 1;
  if (!before) return [low, high];
  return [low - before[0] > 1 ? low : Math.min(low, before[0]), before[1] - high > 1 ? high : Math.max(high, before[1])];
}

export class Chart {
  constructor(host, data) {
    host.replaceChildren();
    this.svg = node(host, "svg", { role: "img", class: "live-plot" });
    this.host = host;
    this.frame = node(this.svg, "g");
    this.clip = node(node(node(this.svg, "defs"), "clipPath", { id: "inside" }), "rect");
    const inside = node(this.svg, "g", { "clip-path": "url(#inside)" });
    this.lines = {};
    for (const { name, dash, absent } of data.strategies) {
      const group = node(inside, "g", absent ? { class: "absent" } : {});
      this.lines[name] = {
        band: node(group, "path", { class: "band", fill: `var(--${name})` }),
        curve: node(group, "path", { class: `curve ${name}`, stroke: `var(--${name})`, "stroke-dasharray": DASHES[dash] }),
      };
    }
    this.here = node(this.svg, "line", { class: "here" });
    this.grip = node(this.svg, "path", { class: "grip" });
    this.hereText = node(this.svg, "text", { class: "chosen", y: TOP - 8 });
    this.meet = node(this.svg, "circle", { class: "meet", r: 5 });
    this.meetText = node(this.svg, "text", { class: "meets" });
    for (const { name, label } of data.strategies) {
      Object.assign(this.lines[name], {
        dot: node(this.svg, "circle", { class: "dot", r: 4.5, fill: `var(--${name})` }),
        value: node(this.svg, "text", { class: "value", style: `fill: var(--${name})` }),
        name: node(this.svg, "text", { class: "name", style: `fill: var(--${name})` }, label),
      });
    }
  }

  // Axes and size: when the width or the range has changed.
  fit(data, span) {
    this.width = this.host.clientWidth;
    this.height = this.host.clientHeight;
    this.right = 12 + LETTER * Math.max(...data.strategies.map(({ letters }) => letters));
    this.span = span;
    this.ends = [Math.log(data.lengths[0]), Math.log(Math.max(data.lengths[data.lengths.length - 1], 2 * data.lengths[0]))];
    put(this.svg, { width: this.width, height: this.height });
    put(this.clip, { x: LEFT, y: TOP, width: this.plotWidth, height: this.plotHeight });
    this.frame.replaceChildren();
    for (let decade = span[0]; decade <= span[1]; decade++) {
      const y = this.y(10 ** decade);
      node(this.frame, "path", { class: "grid", d: `M${LEFT} ${y}H${LEFT + this.plotWidth}` });
      node(this.frame, "text", { x: LEFT - 8, y: y + 4, "text-anchor": "end" }, scaled(10 ** decade, data.units, 1));
    }
    const bottom = TOP + this.plotHeight;
    for (const [tokens, label] of data.ticks) {
      node(this.frame, "path", { class: "grid", d: `M${this.x(tokens)} ${bottom}v4` });
      node(this.frame, "text", { x: this.x(tokens), y: bottom + 17, "text-anchor": "middle" }, label);
    }
    const middle = LEFT + this.plotWidth / 2;
    node(this.frame, "text", { x: middle, y: bottom + 34, "text-anchor": "middle" }, data.texts["axis.x"]);
    node(this.frame, "text", { x: 0, y: 11 }, data.texts["axis.y"]);
  }

  get plotWidth() { return Math.max(this.width - LEFT - this.right, 40); }
  get plotHeight() { return this.height - TOP - BOTTOM; }
  x(tokens) { return LEFT + ((Math.log(tokens) - this.ends[0]) / (this.ends[1] - this.ends[0])) * this.plotWidth; }
  y(value) {
    const along = (Math.log10(value) - this.span[0]) / (this.span[1] - this.span[0]);
    return TOP + this.plotHeight * (1 - Math.min(Math.max(along, -1), 2));
  }

  // The index of the length nearest to a place on the screen.
  nearest(data, clientX) {
    const tokens = (clientX - this.svg.getBoundingClientRect().left - LEFT) / this.plotWidth;
    const wanted = this.ends[0] + tokens * (this.ends[1] - this.ends[0]);
    const away = data.lengths.map((length) => Math.abs(Math.log(length) - wanted));
    return away.indexOf(Math.min(...away));
  }

  // `view`: lengths, curves by strategy, the chosen tokens and delays there, where swap and recompute meet.
  draw(data, view) {
    const at = this.x(view.tokens), bottom = TOP + this.plotHeight;
    put(this.here, { x1: at, x2: at, y1: TOP, y2: bottom });
    put(this.grip, { d: `M${at - 6} ${bottom + 7}l6 -7l6 7z` });
    const along = (at - LEFT) / this.plotWidth;
    const anchor = along < 0.3 ? "start" : along > 0.8 ? "end" : "middle";
    put(this.hereText, { x: at, "text-anchor": anchor });
    this.hereText.textContent = view.tokensText;
    const xs = view.lengths.map((length) => this.x(length).toFixed(1));
    const path = (values) => "M" + Array.from(values, (value, index) => `${xs[index]} ${this.y(value).toFixed(1)}`).join("L");
    const names = data.strategies.map(({ name }) => name);
    for (const { name, band } of data.strategies) {
      const curve = view.curves[name];
      this.lines[name].curve.setAttribute("d", path(curve));
      if (!band) continue;
      const low = path(curve.map((value) => value * (1 - band)));
      const backwards = Array.from(curve, (value, index) => `${xs[index]} ${this.y(value * (1 + band)).toFixed(1)}`);
      this.lines[name].band.setAttribute("d", `${low}L${backwards.reverse().join("L")}Z`);
    }
    const ends = names.map((name) => this.y(view.curves[name][view.curves[name].length - 1]) + 4);
    apart(ends, TOP + 4, bottom).forEach((y, index) => {
      put(this.lines[names[index]].name, { x: LEFT + this.plotWidth + 7, y });
    });
    this.drawValues(view, names, at, along);
    this.drawMeeting(view);
  }

  // Delays beside their dots, where rising lines leave room: the least one below on the right, the others above.
  drawValues(view, names, at, along) {
    const heights = names.map((name) => this.y(view.delays[name]));
    const lowest = heights.indexOf(Math.max(...heights)), left = along > 0.15;
    const placed = apart(heights.map((y, index) => y + (index === lowest ? 19 : left ? -6 : 2)), TOP + 10, TOP + this.plotHeight - 3);
    names.forEach((name, index) => {
      const { dot, value } = this.lines[name], onLeft = left && (index !== lowest || along > 0.85);
      put(dot, { cx: at, cy: heights[index] });
      put(value, { x: at + (onLeft ? -9 : 9), y: placed[index], "text-anchor": onLeft ? "end" : "start" });
      value.textContent = view.delayTexts[name];
    });
  }

  drawMeeting(view) {
    const shown = view.meets === null ? "none" : "inline";
    this.meet.style.display = this.meetText.style.display = shown;
    if (view.meets === null) return;
    const x = this.x(view.meets), y = this.y(view.meetsDelay), late = x > LEFT + this.plotWidth * 0.6;
    put(this.meet, { cx: x, cy: y });
    put(this.meetText, { x: x + (late ? 9 : -9), y: y + (late ? 20 : -10), "text-anchor": late ? "start" : "end" });
    if (x < LEFT + this.plotWidth * 0.3) put(this.meetText, { x: x + 9, y: y + 20, "text-anchor": "start" });
    this.meetText.textContent = view.meetsText;
  }
}
