// What is done with the arrays that Python sends: multiply and add, find where two curves meet, write numbers as text.
// No formula of the cost model stands here; kvmodel/curves/live_terms.py has `seconds` and `crossing` in the same words.

// Arrays in single precision out of one text: deflated, the first bytes of all numbers first.
async function unpacked({ lengths, deflated }) {
  const bytes = Uint8Array.from(atob(deflated), (letter) => letter.charCodeAt(0));
  const inflated = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  const planes = new Uint8Array(await new Response(inflated).arrayBuffer());
  const count = planes.length / 4, whole = new Uint8Array(planes.length);
  for (let index = 0; index < whole.length; index++) whole[index] = planes[(index % 4) * count + (index >> 2)];
  const numbers = new Float32Array(whole.buffer);
  let start = 0;
  return lengths.map((length) => numbers.subarray(start, (start += length)));
}

// Python's data with its arrays unpacked, and the indices of the lengths along a slider that goes alone.
export async function opened(data) {
  const arrays = await unpacked(data.arrays), { tokens } = data.sliders;
  const sparse = [...new Set([...data.regular, tokens.chosen])].sort((one, other) => one - other);
  for (const slider of Object.values(data.sliders)) {
    slider.figures = slider.values.map((value) => value ?? slider.given);
  }
  return { ...data, arrays, sparse, lengths: tokens.values };
}

// The slider whose basis holds for these stops: the one that has left the Case, "tokens" if none has, null if several.
export function moved(data, stops) {
  const left = data.alone.filter((name) => stops[name] !== data.sliders[name].chosen);
  if (left.length === 0) return "tokens";
  return left.length === 1 && stops.tokens === data.sliders.tokens.chosen ? left[0] : null;
}

export function coefficient(data, term, stops) {
  const found = data.coefficients[term];
  return found ? data.arrays[found.array][stops[found.slider]] : 1;
}

// Delay at every length, or with a slider moved at those of `sparse`. [s]
export function seconds(data, strategy, stops, slider) {
  const terms = data.terms[strategy];
  const places = slider === "tokens" ? data.lengths.map((_, index) => index) : data.sparse;
  const total = new Float64Array(places.length);
  for (const [term, array] of Object.entries(terms.tokens)) {
    const rows = slider === "tokens" ? undefined : terms[slider][term];
    const values = data.arrays[rows ?? array];
    const times = coefficient(data, term, stops);
    for (let index = 0; index < total.length; index++) {
      const at = rows === undefined ? places[index] : stops[slider] * places.length + index;
      total[index] += values[at] * times;
    }
  }
  return total;
}

// One term of a strategy at the chosen length, times its coefficient.
export function part(data, strategy, term, stops, slider) {
  const terms = data.terms[strategy];
  if (terms.tokens[term] === undefined) return 0;
  const rows = slider === "tokens" ? undefined : terms[slider][term];
  const column = data.sparse.indexOf(data.sliders.tokens.chosen);
  const at = rows === undefined ? stops.tokens : stops[slider] * data.sparse.length + column;
  return data.arrays[rows ?? terms.tokens[term]][at] * coefficient(data, term, stops);
}

// The x nearest to `chosen` at which two curves meet, straight on log scales between their points; null if none.
export function crossing(x, first, second, chosen) {
  let nearest = null;
  for (let index = 0; index + 1 < x.length; index++) {
    const gap = Math.log(first[index]) - Math.log(second[index]);
    const next = Math.log(first[index + 1]) - Math.log(second[index + 1]);
    if (!Number.isFinite(gap + next) || gap > 0 === next > 0) continue;
    const place = Math.log(x[index]) + (gap / (gap - next)) * (Math.log(x[index + 1]) - Math.log(x[index]));
    if (nearest === null || Math.abs(place - Math.log(chosen)) < Math.abs(nearest - Math.log(chosen))) nearest = place;
  }
  return nearest === null ? null : Math.exp(nearest);
}

// As `significant` of kvmodel/units.py: thousands separated, never in exponent form.
export function significant(value, digits) {
  if (!Number.isFinite(value)) return "–";
  if (value === 0) return "0";
  const rounded = Number(value.toPrecision(digits));
  const decimals = digits - 1 - Number(rounded.toExponential().split("e")[1]);
  const [whole, fraction] = rounded.toFixed(Math.max(decimals, 0)).split(".");
  return whole.replace(/\B(?=(\d{3})+$)/g, ",") + (fraction ? `.${fraction}` : "");
}

// In the largest unit of `units` that leaves at least one once rounded, else in the smallest.
export function scaled(value, units, digits = 2) {
  if (value === 0 || !Number.isFinite(value)) return `${significant(value, digits)} ${units[0][1]}`;
  const large = units.find(([factor]) => significant(value / factor, digits)[0] !== "0");
  const [factor, unit] = large ?? units[units.length - 1];
  return `${significant(value / factor, digits)} ${unit}`;
}
