// Panel 2, it turns: hands, one pair three ways, the score by distance. Every cos, sin and rotated number is the
// program's (`table`, `apply`); here are only dot products of its vectors.

addPanel('turns', showTurns);

// The words of `apply` on its files, and the word with which a rope of images takes one position.
const ofTensors = ['--layout', 'thd', '--input', 'x.npy', '--output', 'y.npy'];
const allAxes = '--same-position-on-every-axis';

async function showTurns() {
  for (const key of sliders) showSlider(key, stepOfPosition(Number(state[key])), state[key]);
  for (const one of mistakes) one.checked = state.wrong.split(',').includes(one.value);
  byId('typed-vectors').hidden = state.vectors !== 'typed';
  await showChapter();
  const rope = await ropeShown(), key = Number(state.key), query = key + Number(state.distance);
  await showHands(rope, key, query);
  await showScore(rope, key, query);
  return [];  // the answer has only what went wrong
}

// The rope that is shown, as `inspect` has it, with the words and files that name it in other commands; `shape` is what
// a plain rope needs beside its base where no tensor has it.
async function ropeShown() {
  const plain = state.of === 'plain', { word, files } = await chosenModel(), name = ownName(state.model);
  const words = plain ? ['--base', state.base] : [word];
  const shape = plain ? ['--pairing', state.pairing, '--head-dim', state.dim] : [];
  const { ropes } = await ask(['inspect', ...words, ...shape], files), rope = ropes[plain ? 0 : Number(state.of)];
  if (!rope) throw new Error(`${word} has no rope ${state.of}`);
  byId('turns-of').replaceChildren(option('plain', 'a plain rope'),
    ...ropes.map((_, i) => option(i, ropes.length > 1 ? `${name}, rope ${i}` : name)));
  showFields(state);
  byId('plain-rope').hidden = !plain;
  byId('wrong-scaling').disabled = plain || rope.scaling === 'default';
  return { ...rope, plain, files, shape, words: plain ? words : [...words, '--rope', state.of] };
}

// ---- hands ----

async function tableAt(rope, positions) {
  const { files } = await ask(['table', ...rope.words, ...rope.shape, '--positions', positions.join(','), allAxes,
    '--output', 't.safetensors'], rope.files);
  const { cos, sin } = tensorsOf(files['t.safetensors']), pairs = cos.shape.at(-1);
  const row = (tensor, i) => floats(tensor).subarray(i * pairs, (i + 1) * pairs);
  return positions.map((_, i) => ({ cos: row(cos, i), sin: row(sin, i) }));
}

let clocks = [];  // {button, lines} of each pair, lines for the hands of the key and the query

function makeClocks(pairs) {
  clocks = Array.from({ length: pairs }, (_, pair) => {
    const hand = (series, dashes) =>
      drawn('line', { class: `hand series-${series}`, x1: 20, y1: 20, 'stroke-dasharray': dashes });
    const lines = [hand(1, '4 3'), hand(0)];
    const face = drawn('circle', { class: 'face', cx: 20, cy: 20, r: 18 });
    const button = pressed(drawn('svg', { viewBox: '0 0 40 40', 'aria-hidden': 'true' }, face, ...lines),
      () => change({ pair: String(pair) }), { 'aria-label': `pair ${pair}` });
    button.append(String(pair));
    return { button, lines };
  });
  byId('clocks').className = pairs <= 8 ? 'few' : '';
  byId('clocks').replaceChildren(...clocks.map(({ button }) => button));
}
byId('clocks').onkeydown = ({ target, key }) => {  // one clock takes the focus, and arrows lead to the others
  const next = clocks.findIndex(({ button }) => button === target) + { ArrowRight: 1, ArrowLeft: -1 }[key];
  clocks[next]?.button.focus();
  clocks[next]?.button.click();
};

async function showHands(rope, key, query) {
  const hands = await tableAt(rope, [key, query]), pairs = hands[0].cos.length;
  const picked = Math.min(Number(state.pair), pairs - 1), before = [Number(state.a), Number(state.b)];
  if (clocks.length !== pairs) makeClocks(pairs);
  clocks.forEach(({ button, lines }, pair) => {
    button.setAttribute('aria-pressed', String(pair === picked));
    button.tabIndex = pair === picked ? 0 : -1;
    lines.forEach((line, i) => {
      const cos = hands[i].cos[pair], sin = hands[i].sin[pair];
      const length = Math.hypot(cos, sin) || 1;  // the attention factor, which is in both
      line.setAttribute('x2', (20 + 17 * cos / length).toFixed(2));
      line.setAttribute('y2', (20 - 17 * sin / length).toFixed(2));
    });
  });
  byId('pair-title').textContent = `Pair ${picked}, three ways`;
  const cos = hands[1].cos[picked], sin = hands[1].sin[picked];
  const { files } = await ask(['apply', '--cos', 'cos.npy', '--sin', 'sin.npy', '--pairing', 'half', ...ofTensors], {
    'cos.npy': npyOf([cos], [1, 1]), 'sin.npy': npyOf([sin], [1, 1]), 'x.npy': npyOf(before, [1, 1, 2]) });
  byId('ways').replaceChildren(...threeWays(cos, sin, before, [...floats(tensorOfNpy(files['y.npy']))]));
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

// The vector q or k of a head, which is zero where nothing rotates.
function vectorOf(rope, name) {
  const { vectors: kind, [name]: typed } = state, values = new Float32Array(rope.head_dim);
  if (kind === 'typed') {
    const numbers = typed.trim().split(/[\s,]+/).map(Number);
    if (numbers.length !== values.length || numbers.some(Number.isNaN))
      throw new Error(`q and k must have ${values.length} numbers but got "${typed}"`);
    return Float32Array.from(numbers);
  }
  const size = rope.rotary_dim, seed = kind === 'two' && name === 'k' ? 7 : 1;
  values.set(kind === 'equal' ? Array(size).fill(1) : drawnNumbers(size, seed), rope.first);
  const length = Math.hypot(...values);
  return values.map(value => value / length);
}

async function rotated(rope, vector, positions, options) {
  const all = new Float32Array(positions.length * vector.length);
  positions.forEach((_, i) => all.set(vector, i * vector.length));
  const where = ['--positions', positions.join(','), allAxes];
  const { files } = await ask(['apply', ...rope.words, ...ofTensors, ...where, ...options],
    { ...rope.files, 'x.npy': npyOf(all, [positions.length, 1, vector.length]) });
  return floats(tensorOfNpy(files['y.npy']));
}

// The scores of the query at each distance behind the key. wrong: a list of mistakes.
async function scores(rope, key, distances, wrong) {
  const has = mistake => wrong.includes(mistake), other = rope.pairing === 'half' ? 'interleaved' : 'half';
  const options = isOther => [...(has('angles') ? ['--angles', 'float32'] : []),
    ...(has('scaling') ? ['--scaling', 'none'] : []),
    ...(isOther || rope.plain ? ['--pairing', isOther ? other : rope.pairing] : [])];
  const queries = await rotated(rope, vectorOf(rope, 'q'), distances.map(distance => key + distance),
    options(has('pairing')));
  const keys = await rotated(rope, vectorOf(rope, 'k'), [has('offset') ? key + 1 : key],
    options(has('pairing') || has('pairing-k')));
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

// The range and the mean of the values of each step, for bands and lines.
function bySteps(steps, values) {
  let at = 0;
  const parts = steps.map(step => values.slice(at, at += step.length));
  return { x: steps.map(step => step[Math.floor(step.length / 2)]), low: parts.map(part => Math.min(...part)),
    high: parts.map(part => Math.max(...part)),
    y: parts.map(part => part.reduce((sum, value) => sum + value, 0) / part.length) };
}

async function showScore(rope, key, query) {
  const wrong = mistakes.filter(one => one.checked && !one.disabled).map(one => one.value);
  const reach = Number(state.reach), log = reach > 512, steps = distanceSteps(reach), distance = query - key;
  const kinds = [{ name: 'as the model asks', wrong: [] }];
  if (wrong.length) kinds.push({ name: 'with the mistakes', wrong });
  for (const [series, kind] of kinds.entries()) {
    const all = await scores(rope, key, [...steps.flat(), distance], kind.wrong);
    Object.assign(kind, { series, dashed: series === 1, here: all.pop(), scores: all, ...bySteps(steps, all) });
  }
  const inside = distance <= reach && (!log || distance > 0);
  byId('score').replaceChildren(scoreSentence(distance, ...kinds),
    lineChart({ label: `The score of q and k by distance, up to ${reach}`, x: { label: 'distance in tokens', log },
      y: { label: 'score q . k' }, lines: kinds, bands: log ? kinds : [],
      marks: inside ? [{ x: distance, name: `distance ${grouped(distance)}`, series: 0 }] : [] }),
    legend(kinds),
    log ? quiet('The line is the mean of up to 16 distances in each of 80 steps, the shade their range.') : '');
}

function scoreSentence(distance, right, wrong) {
  const score = (id, { here }) => element('strong', { id }, here.toFixed(6));
  const off = wrong && Math.max(...right.scores.map((one, i) => Math.abs(one - wrong.scores[i])));
  return element('p', {}, `At distance ${grouped(distance)} the score is `, score('score-here', right),
    ...(wrong ? ['; with the mistakes ', score('score-wrong', wrong),
      `. In this picture they differ by up to ${rounded(off, 3)}.`] : ['.']));
}

// ---- controls ----

// A slider of 600 steps: 0 to 100 one by one, then tenfold in 125 steps, to a million.
const positionOfStep = step => (step <= 100 ? step : Math.round(10 ** (2 + (step - 100) / 125)));
const stepOfPosition = position => (position <= 100 ? position : Math.round(100 + 125 * (Math.log10(position) - 2)));

const sliders = ['key', 'distance'];
const mistakes = [...byId('mistakes').elements];  // a switch for each
const mistakesChosen = () => mistakes.filter(one => one.checked).map(one => one.value);

for (const key of sliders) wireSlider(key, positionOfStep);
byId('mistakes').onchange = () => change({ wrong: mistakesChosen().join(',') });
byId('hands-legend').append(legend([{ name: 'key', series: 1, dashed: true }, { name: 'query', series: 0 }]));
let playing = null;  // a timer
byId('play').onclick = ({ target }) => {
  clearInterval(playing);
  playing = playing === null ? setInterval(() => {
    if (state.panel === 'turns') change({ distance: String(Number(state.distance) + 1) });
  }, 200) : null;
  target.textContent = playing === null ? 'Play' : 'Stop';
};
