// Panel 2, it turns: hands, one pair three ways, the score by distance. Every cos, sin and rotated number is the
// program's (`table`, `apply`); here are only dot products of its vectors.

// The words of `apply` on its files, and the word with which a rope of images takes one position.
const ofTensors = ['--layout', 'thd', '--input', 'x.npy', '--output', 'y.npy'];
const allAxes = '--same-position-on-every-axis';

addPanel('turns', async () => {
  for (const key of sliders) showSlider(key, stepOfPosition(Number(state[key])), state[key]);
  for (const one of mistakes) one.checked = state.wrong.split(',').includes(one.value);
  byId('typed-vectors').hidden = state.vectors !== 'typed';
  for (const part of document.querySelectorAll('[data-picture]'))
    part.hidden = !part.dataset.picture.includes(state.picture);
  await showChapter();
  const rope = await ropeShown(), key = Number(state.key), query = key + Number(state.distance);
  await showHands(rope, key, query);
  await ({ table: showTable, patches: showPatches }[state.picture] ?? showDistances)(rope, key, query);
  return [];  // the answer has only what went wrong
});

// The rope that is shown, as `inspect` has it, with the words and files that name it in other commands; `shape` is what
// a plain rope needs beside its base where no tensor has it.
async function ropeShown() {
  const plain = state.of === 'plain', { word, files } = await chosenModel(), name = ownName(state.model);
  const words = plain ? ['--base', state.base] : [word];
  const shape = plain ? ['--pairing', state.pairing, '--head-dim', state.dim] : [];
  const { ropes } = await askOnce(['inspect', ...words, ...shape], files), rope = ropes[plain ? 0 : Number(state.of)];
  byId('turns-of').replaceChildren(option('plain', 'a plain rope'),
    ...ropes.map((_, i) => option(i, ropes.length > 1 ? `${name}, rope ${i}` : name)));
  showFields(state);
  byId('plain-rope').hidden = !plain;
  if (!rope) throw new Error(`${word} has no rope ${state.of}`);
  byId('wrong-scaling').disabled = plain || rope.scaling === 'default';
  return { ...rope, plain, files, shape, words: plain ? words : [...words, '--rope', state.of] };
}

// ---- hands ----

// {cos, sin} of each pair at each of the positions; of head 0 where each head has frequencies of its own.
async function tableAt(rope, positions) {
  const { files } = await ask(['table', ...rope.words, ...rope.shape, '--positions', positions.join(','), allAxes,
    '--output', 't.safetensors'], rope.files);
  const tensors = tensorsOf(files['t.safetensors']), [cos, sin] = [tensors.cos, tensors.sin].map(floats);
  const pairs = tensors.cos.shape.at(-1), every = cos.length / positions.length;  // with rows per head, those of all
  const row = (all, i) => all.subarray(i * every, i * every + pairs);
  return positions.map((_, i) => ({ cos: row(cos, i), sin: row(sin, i) }));
}

const pickedOf = pairs => Math.min(Number(state.pair), pairs - 1);

let clocks = [];  // {input, lines} of each pair, lines for the hands of the key and the query

function makeClocks(pairs) {
  clocks = Array.from({ length: pairs }, (_, pair) => {
    const hand = (series, dashes) =>
      element('line', { class: `hand series-${series}`, x1: 20, y1: 20, 'stroke-dasharray': dashes });
    const lines = [hand(1, '4 3'), hand(0)];
    const face = element('circle', { class: 'face', cx: 20, cy: 20, r: 18 });
    const input = element('input', { type: 'radio', name: 'pair', 'aria-label': `pair ${pair}`,
      onchange: () => change({ pair: String(pair) }) });
    const svg = element('svg', { viewBox: '0 0 40 40', 'aria-hidden': 'true' }, face, ...lines);
    return { input, lines, label: element('label', {}, input, svg, pair) };
  });
  byId('clocks').className = pairs <= 8 ? 'few' : '';
  byId('clocks').replaceChildren(...clocks.map(({ label }) => label));
}

async function showHands(rope, key, query) {
  const hands = await tableAt(rope, [key, query]), pairs = hands[0].cos.length;
  const picked = pickedOf(pairs), half = rope.pairing === 'half', q = vectorOf(rope, 'q');
  const at = rope.first + (half ? picked : 2 * picked), before = [q[at], q[at + (half ? pairs : 1)]];
  if (clocks.length !== pairs) makeClocks(pairs);
  clocks.forEach(({ input, lines }, pair) => {
    input.checked = pair === picked;
    lines.forEach((line, i) => {
      const cos = hands[i].cos[pair], sin = hands[i].sin[pair];
      const length = Math.hypot(cos, sin) || 1;  // the attention factor, which is in both
      line.setAttribute('x2', (20 + 17 * cos / length).toFixed(2));
      line.setAttribute('y2', (20 - 17 * sin / length).toFixed(2));
    });
  });
  byId('pair-title').textContent = `Pair ${picked} of q, three ways`;
  const cos = hands[1].cos[picked], sin = hands[1].sin[picked];
  const { files } = await ask(['apply', '--cos', 'cos.npy', '--sin', 'sin.npy', '--pairing', 'half', ...ofTensors], {
    'cos.npy': npyOf([cos], [1, 1]), 'sin.npy': npyOf([sin], [1, 1]), 'x.npy': npyOf(before, [1, 1, 2]) });
  byId('ways').replaceChildren(...threeWays(cos, sin, before, [...floats(tensorOfNpy(files['y.npy']))]));
}

function threeWays(cos, sin, before, after) {
  const six = value => value.toFixed(6).padStart(9), [x, y] = after.map(six);
  const [a, b, minus] = [...before, -before[1]].map(value => (Number.isInteger(value) ? String(value) : six(value)));
  const width = Math.max(a.length, b.length), wide = text => text.padStart(width);
  const signed = value => (value < 0 ? '- ' : '+ ') + Math.abs(value).toFixed(6) + 'i';
  const way = (title, ...lines) => element('div', focused(title), element('h4', {}, title), lines.join('\n'));
  return [
    way('the matrix', `[ ${six(cos)} ${six(-sin)} ] [ ${wide(a)} ]   [ ${x} ]`,
      `[ ${six(sin)} ${six(cos)} ] [ ${wide(b)} ] = [ ${y} ]`),
    way('complex numbers', `(${a} + ${b}i)`, `* (${six(cos).trim()} ${signed(sin)})`,
      `= ${x.trim()} ${signed(after[1])}`),
    way('x cos + rotate_half(x) sin', `${wide(a)} * ${six(cos)} + ${wide(minus)} * ${six(sin)} = ${x}`,
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

// The vector at each of the positions {words, count}, rotated as head 0.
async function rotated(rope, vector, { words, count }, options) {
  const heads = Array.isArray(rope.inv_freq[0]?.[0]) ? rope.inv_freq.length : 1;  // those with frequencies of their own
  const size = vector.length, every = heads * size, all = new Float32Array(count * every);
  for (let i = 0; i < count; ++i) all.set(vector, i * every);
  const { files } = await ask(['apply', ...rope.words, ...ofTensors, '--positions', words, allAxes, ...options],
    { ...rope.files, 'x.npy': npyOf(all, [count, heads, size]) });
  const rows = floats(tensorOfNpy(files['y.npy']));
  for (let i = 1; i < count; ++i) rows.copyWithin(i * size, i * every, i * every + size);
  return rows.subarray(0, count * size);
}

const listed = numbers => ({ words: numbers.join(','), count: numbers.length });

// The scores of the query at each of the positions `queries` with the key at position number `at` of `keys`. With the
// mistake "offset" the key takes the next position of `keys`. wrong: a list of mistakes.
async function scores(rope, queries, keys, at, wrong) {
  const has = mistake => wrong.includes(mistake), other = rope.pairing === 'half' ? 'interleaved' : 'half';
  const options = isOther => [...(has('angles') ? ['--angles', 'float32'] : []),
    ...(has('scaling') ? ['--scaling', 'none'] : []),
    ...(isOther || rope.plain ? ['--pairing', isOther ? other : rope.pairing] : [])];
  const q = await rotated(rope, vectorOf(rope, 'q'), queries, options(has('pairing')));
  const k = await rotated(rope, vectorOf(rope, 'k'), keys, options(has('pairing') || has('pairing-k')));
  const size = rope.head_dim, key = k.subarray(size * (at + has('offset'))).subarray(0, size);
  return Array.from({ length: queries.count }, (_, i) =>
    key.reduce((sum, value, j) => sum + value * q[i * size + j], 0));
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

// The scores as the model asks and, where mistakes are chosen, with them: {name, scores} of each.
async function scoresShown(...words) {
  const wrong = mistakes.filter(one => one.checked && !one.disabled).map(one => one.value);
  const kinds = [{ name: 'as the model asks', scores: await scores(...words, []) }];
  if (wrong.length) kinds.push({ name: 'with the mistakes', scores: await scores(...words, wrong) });
  return kinds;
}

async function showDistances(rope, key, query) {
  const reach = Number(state.reach), log = reach > 512, steps = distanceSteps(reach), distance = query - key;
  const distances = [...steps.flat(), distance];
  const kinds = await scoresShown(rope, listed(distances.map(one => key + one)), listed([key, key + 1]), 0);
  const lines = kinds.map(({ name, scores: all }, series) =>
    ({ name, series, dashed: series === 1, ...bySteps(steps, all) }));
  const inside = distance <= reach && (!log || distance > 0);
  byId('score').replaceChildren(
    scoreSentence(`At distance ${grouped(distance)} the score is `, distances.length - 1, kinds),
    picture({ label: `The score of q and k by distance, up to ${reach}`, x: { label: 'distance in tokens', log },
      y: { label: 'score q . k' }, lines, bands: log ? lines : [],
      marks: inside ? [{ x: distance, name: `distance ${grouped(distance)}`, series: 0 }] : [] }),
    log ? quiet('The line is the mean of up to 16 distances in each of 80 steps, the shade their range.') : '');
}

const exactly = (id, value) => element('strong', { id }, value.toFixed(6));

function scoreSentence(words, at, [right, wrong]) {
  const off = wrong && Math.max(...right.scores.map((one, i) => Math.abs(one - wrong.scores[i])));
  return element('p', {}, words, exactly('score-here', right.scores[at]),
    ...(wrong ? ['; with the mistakes ', exactly('score-wrong', wrong.scores[at]),
      `. In this picture they differ by up to ${rounded(off, 3)}.`] : ['.']));
}

// The key is the patch in the middle of an image, the query each patch of it.
async function showPatches(rope) {
  const reach = 16, side = 2 * reach + 1, middle = reach * side + reach;
  const axes = rope.axis_names.length, below = Number(state.below), right = Number(state.right);
  if (!(Math.max(Math.abs(below), Math.abs(right)) <= reach) || !Number.isInteger(below + right))
    throw new Error(`rows and columns must be whole numbers from -${reach} to ${reach}`);
  const patches = { words: axes ? `image:${side}x${side}` : `0:${side * side}`, count: side * side };
  const kinds = await scoresShown(rope, patches, patches, middle), { name, scores: all } = kinds.at(-1);
  const ground = Math.max(0, Math.min(...all));
  byId('score').replaceChildren(
    scoreSentence(`With the query ${below} below the key and ${right} to its right the score is `,
      middle + below * side + right, kinds),
    drawChart({ label: `The scores of a patch with the ${side} x ${side} patches around it`,
      x: { label: 'columns to the right', whole: true }, y: { label: 'rows below', whole: true },
      marks: [{ x: right }, { y: below }],
      map: { ...mapOf(side, all.map(one => one - ground), -reach, -reach), square: true } }),
    quiet(`The key is in the middle. A score, ${name}, is blue above ${rounded(ground, 2)}, orange below. `,
      axes ? '' : `This rope has one axis: the patches are numbered row by row, ${side} in each.`));
}

// The cosine of each pair at the positions from the key's on.
async function showTable(rope, key, query) {
  const count = 128, rows = await tableAt(rope, [...Array.from({ length: count }, (_, i) => key + i), query]);
  const { cos, sin } = rows[count], pair = pickedOf(cos.length);
  const values = Array.from({ length: cos.length * count }, (_, i) => rows[i % count].cos[Math.floor(i / count)]);
  byId('score').replaceChildren(
    element('p', {}, `At position ${grouped(query)} pair ${pair} has the cosine `, exactly('cos-here', cos[pair]),
      ' and the sine ', exactly('sin-here', sin[pair]), '.'),
    drawChart({ label: `The cosines of ${cos.length} pairs at ${count} positions`,
      x: { label: 'position', whole: true }, y: { label: 'pair', whole: true },
      marks: [{ y: pair }, ...(query < key + count ? [{ x: query }] : [])], map: mapOf(count, values, key) }),
    quiet('A cosine is blue above 0, orange below. The positions begin at the key; the lines are at the query and at ' +
      'the chosen pair.'));
}

// ---- controls ----

// A slider of 600 steps: 0 to 100 one by one, then tenfold in 125 steps, to a million.
const positionOfStep = step => (step <= 100 ? step : Math.round(10 ** (2 + (step - 100) / 125)));
const stepOfPosition = position => (position <= 100 ? position : Math.round(100 + 125 * (Math.log10(position) - 2)));

const sliders = ['key', 'distance'];
const mistakes = [...byId('mistakes').elements];  // a switch for each
for (const key of sliders) wireSlider(key, positionOfStep);
byId('mistakes').onchange = () =>
  change({ wrong: String(mistakes.filter(one => one.checked).map(one => one.value)) });
byId('hands-legend').append(legend([{ name: 'key', series: 1, dashed: true }, { name: 'query', series: 0 }]));
let playing = null;  // a timer
byId('play').onclick = ({ target }) => {
  clearInterval(playing);
  playing = playing === null ? setInterval(() => {
    if (state.panel === 'turns') change({ distance: String(Number(state.distance) + 1) });
  }, matchMedia('(prefers-reduced-motion)').matches ? 1000 : 200) : null;
  target.textContent = playing === null ? 'Play' : 'Stop';
};
