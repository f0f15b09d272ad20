// Panel 2, it turns: hands, one pair three ways, the score by distance. Every cos, sin and rotated number is the
// program's (`table`, `apply`); here are only dot products of its vectors.

panels.set('turns', { show: newest(showTurns) });
const turnsDefaults = { chapter: '1', ...firstFigure };

const clocks = new Clocks(byId('clocks'), pair => change({ pair: String(pair) }));
const mistakes = ['pairing', 'pairing-k', 'offset', 'angles', 'scaling'];  // each has a switch, wrong-NAME
const isPossible = mistake => !byId('wrong-' + mistake).disabled;
// The files that `apply` reads and writes; and that a rope of images takes one position too.
const ofTensors = ['--layout', 'thd', '--input', 'x.npy', '--output', 'y.npy'];
const allAxes = '--same-position-on-every-axis';

async function showTurns() {
  showModelSelects();
  showTurnsControls();
  try {
    await showChapter();
    const rope = await ropeShown();
    showRopes(rope);
    const key = Number(state.key), query = key + Number(state.distance);
    await showHands(rope, key, query);
    await showScore(rope, key, query);
    byId('turns-failure').replaceChildren();
  } catch (error) {
    byId('turns-failure').replaceChildren(failure(error));
  }
}

// ---- the rope ----

const inspected = new Map();
// The rope that is shown, as `inspect` has it, with the words and files that name it in other commands; a plain rope is
// named by its pairing too.
async function ropeShown() {
  const plain = state.of === 'plain';
  const { word, files } = await chosenModel();
  const named = plain ? ['--base', state.base, '--pairing', state.pairing, '--head-dim', state.dim] : [word];
  const key = plain ? named.join(' ') : state.model;
  if (!inspected.has(key)) inspected.set(key, await ask(['inspect', ...named], plain ? {} : files));
  const { ropes } = inspected.get(key), number = plain ? 0 : Number(state.of);
  if (!ropes[number]) throw new Error(`${word} has no rope ${number}`);
  return { ...ropes[number], plain, count: ropes.length, files: plain ? {} : files,
           words: plain ? ['--base', state.base] : [word, '--rope', String(number)] };
}

function showRopes(rope) {
  const count = rope.plain ? 1 : rope.count, name = state.model.replace(/^=|\/.*|^file:/g, '');
  const names = Array.from({ length: count }, (_, i) => (count > 1 ? `${name}, rope ${i}` : name));
  const select = byId('turns-of');
  select.replaceChildren(element('option', { value: 'plain' }, 'a plain rope'),
    ...names.map((text, i) => element('option', { value: i }, text)));
  select.value = state.of;
  byId('plain-rope').hidden = state.of !== 'plain';
  byId('wrong-scaling').disabled = rope.plain || rope.scaling === 'default';
}

// ---- hands ----

async function tableAt(rope, positions) {
  const described = rope.plain ? ['--pairing', rope.pairing, '--head-dim', state.dim] : [];
  const { files } = await ask(['table', ...rope.words, ...described, '--positions', positions.join(','), allAxes,
    '--output', 't.safetensors'], rope.files);
  const { cos, sin } = tensorsOf(files['t.safetensors']), pairs = cos.shape.at(-1);
  return positions.map((_, i) => ({ cos: floats(cos.bytes).subarray(i * pairs, (i + 1) * pairs),
                                    sin: floats(sin.bytes).subarray(i * pairs, (i + 1) * pairs) }));
}

async function showHands(rope, key, query) {
  const hands = await tableAt(rope, [key, query]);
  const pair = Math.min(Number(state.pair), hands[0].cos.length - 1);
  clocks.show(hands, pair);
  byId('pair-title').textContent = `Pair ${pair}, three ways`;
  const cos = hands[1].cos[pair], sin = hands[1].sin[pair], before = [Number(state.a), Number(state.b)];
  const { files } = await ask(['apply', '--cos', 'cos.npy', '--sin', 'sin.npy', '--pairing', 'half', ...ofTensors], {
     'cos.npy': npyOf([cos], [1, 1]), 'sin.npy': npyOf([sin], [1, 1]), 'x.npy': npyOf(before, [1, 1, 2]) });
  byId('ways').replaceChildren(...threeWays(cos, sin, before, [...numbersOfNpy(files['y.npy'])]));
}

function threeWays(cos, sin, before, after) {
  const six = value => value.toFixed(6).padStart(9), [a, b] = before.map(String), [x, y] = after.map(six);
  const width = Math.max(a.length, b.length), wide = text => text.padStart(width);
  const signed = value => (value < 0 ? '- ' : '+ ') + Math.abs(value).toFixed(6) + 'i';
  const way = (title, ...lines) => element('div', focused(title), element('h4', {}, title), lines.join('\n'));
  return [
    way('the matrix', `[ ${six(cos)} ${six(-sin)} ] [ ${wide(a)} ]   [ ${x} ]`,
      `[ ${six(sin)} ${six(cos)} ] [ ${wide(b)} ] = [ ${y} ]`),
    way('complex numbers', `(${a} + ${b}i)`, `* (${six(cos).trim()} ${signed(sin)})`,
      `= ${x.trim()} ${signed(after[1])}`),
    way('x cos + rotate_half(x) sin', `${wide(a)} * ${six(cos)} + ${wide(String(-before[1]))} * ${six(sin)} = ${x}`,
      `${wide(b)} * ${six(cos)} + ${wide(a)} * ${six(sin)} = ${y}`)];
}

// ---- scores ----

// A vector of a head that is zero where nothing rotates.
function vectorOf(rope, kind, typed) {
  const size = rope.head_dim, values = new Float32Array(size);
  if (kind === 'typed') {
    const numbers = typed.trim().split(/[\s,]+/).map(Number);
    if (numbers.length !== size || numbers.some(Number.isNaN))
      throw new Error(`q and k must have ${size} numbers but got "${typed}"`);
    return Float32Array.from(numbers);
  }
  const block = kind === 'equal' ? Array(rope.rotary_dim).fill(1) : drawnNumbers(rope.rotary_dim, kind === 'k' ? 7 : 1);
  values.set(block, rope.first);
  const length = Math.hypot(...values);
  return values.map(value => value / length);
}
function vectors(rope) {
  const [q, k] = { random: ['q', 'q'], two: ['q', 'k'] }[state.vectors] ?? [state.vectors, state.vectors];
  return [vectorOf(rope, q, state.q), vectorOf(rope, k, state.k)];
}

async function rotated(rope, vector, positions, options) {
  const all = new Float32Array(positions.length * vector.length);
  positions.forEach((_, i) => all.set(vector, i * vector.length));
  const where = ['--positions', positions.join(','), allAxes];
  const { files } = await ask(['apply', ...rope.words, ...ofTensors, ...where, ...options],
    { ...rope.files, 'x.npy': npyOf(all, [positions.length, 1, vector.length]) });
  return numbersOfNpy(files['y.npy']);
}

// The scores of the query at each distance behind the key. wrong: a set of mistakes.
async function scores(rope, key, distances, wrong) {
  const [q, k] = vectors(rope), other = ['--pairing', rope.pairing === 'half' ? 'interleaved' : 'half'];
  const right = rope.plain ? ['--pairing', rope.pairing] : [];
  const both = [...(wrong.has('angles') ? ['--angles', 'float32'] : []),
                ...(wrong.has('scaling') ? ['--scaling', 'none'] : [])];
  const ofQ = [...both, ...(wrong.has('pairing') ? other : right)];
  const ofK = [...both, ...(wrong.has('pairing') || wrong.has('pairing-k') ? other : right)];
  const queries = await rotated(rope, q, distances.map(distance => key + distance), ofQ);
  const keys = await rotated(rope, k, [key + (wrong.has('offset') ? 1 : 0)], ofK);
  return distances.map((_, i) => keys.reduce((sum, value, at) => sum + value * queries[i * keys.length + at], 0));
}

// Steps of distances: each distance up to 512, else 80 steps with up to 16 distances in each.
function distanceSteps(reach) {
  if (reach <= 512) return Array.from({ length: reach + 1 }, (_, distance) => [distance]);
  const edges = [...new Set(Array.from({ length: 81 }, (_, i) => Math.round((reach + 1) ** (i / 80))))];
  return edges.slice(0, -1).map((begin, i) => {
    const size = edges[i + 1] - begin, count = Math.min(size, 16);
    return Array.from({ length: count }, (_, j) => begin + Math.floor(j * size / count));
  });
}

function bySteps(steps, values) {
  const band = { x: [], low: [], high: [], mean: [] };
  let at = 0;
  for (const step of steps) {
    const inside = values.slice(at, at += step.length);
    band.x.push(step[Math.floor(step.length / 2)]);
    band.low.push(Math.min(...inside));
    band.high.push(Math.max(...inside));
    band.mean.push(inside.reduce((sum, value) => sum + value, 0) / inside.length);
  }
  return band;
}

async function showScore(rope, key, query) {
  const wrong = new Set(state.wrong.split(',').filter(word => mistakes.includes(word) && isPossible(word)));
  const reach = Number(state.reach), steps = distanceSteps(reach), distance = query - key;
  const distances = [...steps.flat(), distance], kinds = [{ name: 'as the model asks', wrong: new Set() }];
  if (wrong.size) kinds.push({ name: 'with the mistakes', wrong });
  for (const kind of kinds) {
    kind.scores = await scores(rope, key, distances, kind.wrong);
    kind.here = kind.scores.pop();
  }
  const log = reach > 512, shown = kinds.map((kind, series) => ({ ...kind, series, ...bySteps(steps, kind.scores) }));
  const lines = shown.map(({ name, series, x, mean }) => ({ name, series, dashed: series === 1, x, y: mean }));
  const inside = distance <= reach && (!log || distance > 0);
  byId('score').replaceChildren(scoreSentence(distance, ...kinds),
    lineChart(byId('score').clientWidth, { label: `The score of q and k by distance, up to ${reach}`,
      x: { label: 'distance in tokens', log }, y: { label: 'score q . k' }, lines, bands: log ? shown : [],
      marks: inside ? [{ x: distance, name: `distance ${grouped(distance)}`, series: 0 }] : [] }),
    legend(lines),
    log ? quiet('The line is the mean of up to 16 distances in each of 80 steps, the shade their range.') : '');
}

function scoreSentence(distance, right, wrong) {
  const score = (id, { here }) => element('strong', { id }, here.toFixed(6));
  const said = element('p', {}, `At distance ${grouped(distance)} the score is `, score('score-here', right));
  if (!wrong) return filled(said, {}, ['.']);
  const off = Math.max(...right.scores.map((one, i) => Math.abs(one - wrong.scores[i])));
  said.append('; with the mistakes ', score('score-wrong', wrong),
    `. In this picture they differ by up to ${rounded(off, 3)}.`);
  return said;
}

// ---- controls ----

// A slider of 600 steps: 0 to 100 one by one, then tenfold in 125 steps, to a million.
const positionOfStep = step => (step <= 100 ? step : Math.round(10 ** (2 + (step - 100) / 125)));
const stepOfPosition = position => (position <= 100 ? position : Math.round(100 + 125 * (Math.log10(position) - 2)));

const sliders = { 'key-slider': 'key', 'distance-slider': 'distance' };

function showTurnsControls() {
  for (const [id, key] of Object.entries(sliders)) {
    if (document.activeElement !== byId(id)) byId(id).value = stepOfPosition(Number(state[key]));
    byId(id).setAttribute('aria-valuetext', state[key]);
  }
  const wrong = state.wrong.split(',');
  for (const mistake of mistakes) byId('wrong-' + mistake).checked = wrong.includes(mistake);
  byId('typed-vectors').hidden = state.vectors !== 'typed';
}

function wireTurns() {
  for (const [id, key] of Object.entries(sliders))
    byId(id).oninput = event => change({ [key]: String(positionOfStep(Number(event.target.value))) });
  const chosen = () => mistakes.filter(mistake => byId('wrong-' + mistake).checked);
  for (const mistake of mistakes) byId('wrong-' + mistake).onchange = () => change({ wrong: chosen().join(',') });
  let timer = null;
  byId('play').onclick = () => {
    clearInterval(timer);
    timer = timer === null ? setInterval(() => {
      if (state.panel === 'turns') change({ distance: String(Number(state.distance) + 1) });
    }, 200) : null;
    byId('play').textContent = timer === null ? 'Play' : 'Stop';
  };
}
wireTurns();
