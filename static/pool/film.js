// What is done with the stays that Python sends: who holds what, and who waits, at one time. kvmodel/simulation/pool_film.py has
// what the columns mean; this reads along straight lines between them, as tests/helpers/pool_picture.py does.

const COLUMNS = ["request", "ready", "admitted", "decoding", "left", "prefillBlocks", "leftBlocks"];
const AGAIN = 0x8000; // of a request that comes back from a preemption
export const FULL = 65535; // times as shares of the film, blocks as shares of the pool

function sixteenBits(packed) {
  return new Uint16Array(Uint8Array.from(atob(packed), (letter) => letter.charCodeAt(0)).buffer);
}

// A run with its columns; `cached` has only what came back from a preemption.
export function opened(run) {
  const all = sixteenBits(run.stays), cached = sixteenBits(run.cached), rows = all.length / COLUMNS.length;
  const stays = Object.fromEntries(COLUMNS.map((name, place) => [name, all.slice(place * rows, (place + 1) * rows)]));
  stays.again = Array.from(stays.request, (request) => request >= AGAIN);
  stays.request = stays.request.map((request) => request % AGAIN);
  let place = 0;
  stays.cachedBlocks = stays.again.map((again) => (again ? cached[place++] : 0));
  return { ...run, stays, rows };
}

// Stretches of the pool in the order of admission, then what is left of preempted requests; and the two queues.
export function picture(run, share) {
  const { stays, rows } = run, t = Math.min(share * FULL, FULL - 1); // at the end: the last that is still there
  const held = [], kept = [], fresh = [], preempted = [];
  for (let row = 0; row < rows; row++) {
    if (stays.ready[row] > t || stays.left[row] <= t) continue;
    const request = stays.request[row], again = stays.again[row];
    if (stays.admitted[row] > t) {
      (again ? preempted : fresh).push(request);
      if (again && stays.cachedBlocks[row]) kept.push({ request, blocks: stays.cachedBlocks[row], state: "kept" });
    } else {
      const decodes = stays.decoding[row] <= t;
      const [from, to] = decodes ? [stays.decoding[row], stays.left[row]] : [stays.admitted[row], stays.decoding[row]];
      const [first, last] = decodes
        ? [stays.prefillBlocks[row], stays.leftBlocks[row]] : [stays.cachedBlocks[row], stays.prefillBlocks[row]];
      const blocks = to > from ? first + ((t - from) / (to - from)) * (last - first) : first;
      held.push({ request, blocks, state: decodes ? "decode" : again ? "recompute" : "prefill", again });
    }
  }
  return { held, kept: run.onHost ? [] : kept, fresh, preempted };
}

export function sum(stretches) {
  return stretches.reduce((total, { blocks }) => total + blocks, 0);
}

// "12,345"
export function grouped(number) {
  return String(Math.round(number)).replace(/\B(?=(\d{3})+$)/g, ",");
}

export function filled(text, numbers) {
  return text.replace(/\[\[(\w+)\]\]/g, (_, name) => numbers[name]);
}
