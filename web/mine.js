// Panel 4, is mine right? `rotary check` of two files, in an instance of its own that can be stopped.

panels.set('mine', { show: showModelSelects });

let stopping = null;  // the AbortController of the check that runs

byId('mine-form').onsubmit = () => {
  const before = byId('before').files[0], after = byId('after').files[0];
  if (!before || !after) {
    byId('mine-answer').replaceChildren(failure(new Error('choose both files, before and after the rotation')));
    return;
  }
  check(before, after);
};
byId('stop').onclick = () => stopping?.abort(new Error('stopped'));
byId('example').onclick = tryExample;

// Files that were dropped: the one with "before" or "in" in its name stands before, else the first.
function takeTensors(files) {
  if (state.panel !== 'mine') change({ panel: 'mine' });
  const [first, second] = [...files].sort((a, b) => /before|in/.test(b.name) - /before|in/.test(a.name));
  for (const [id, file] of [['before', first], ['after', second ?? first]]) {
    const list = new DataTransfer();
    list.items.add(file);
    if (second || !byId(id).files[0]) byId(id).files = list.files;
  }
}

// q and k in the shape of the model, rotated with one mistake: without its scaling, else with base 10000.
async function tryExample() {
  try {
    const { word, files } = await chosenModel(), { ropes: [rope] } = await ask(['inspect', word], files);
    if (!rope) throw new Error(`${word} has no rope`);
    const shape = [64, rope.kv_heads, rope.head_dim];
    const before = npyOf(drawnNumbers(shape[0] * shape[1] * shape[2]), shape);
    const mistake = rope.scaling === 'default' ? ['--base', rope.base === 10000 ? '500000' : '10000']
                                               : ['--scaling', 'none'];
    const made = await ask(['apply', word, '--rope', '0', ...mistake, '--layout', 'thd', '--input', 'q.npy',
      '--output', 'engine.npy'], { ...files, 'q.npy': before });
    const file = (data, name) => new File([data], name);
    await check(file(before, 'q.npy'), file(made.files['engine.npy'], 'engine.npy'));
  } catch (error) {
    byId('mine-answer').replaceChildren(failure(error));
  }
}

const megabytesAtMost = 550;  // `check` takes seven times as much, of the 4 GB that the program has

async function check(before, after) {
  const began = performance.now(), size = Math.round((before.size + after.size) / 1e5) / 10;
  const seconds = () => (performance.now() - began) / 1000;
  let step = 'reading';
  const say = () => { byId('mine-state').textContent = `${size} MB, ${step}, ${Math.round(seconds())} s`; };
  const told = text => { step = text.trim() || step; };  // the line of progress is "steps of check: 3 of 8, 37 %"
  const timer = setInterval(say, 1000);
  stopping?.abort(new Error('another check was started'));
  const stop = stopping = new AbortController();
  say();
  byId('stop').disabled = false;
  byId('mine-answer').replaceChildren();
  try {
    if (size > megabytesAtMost)
      throw new Error(`the page has memory for two files of ${megabytesAtMost} MB together: rotary check takes these`);
    const { word, files } = await chosenModel();
    const names = { before: 'before/' + before.name, after: 'after/' + after.name };
    const all = { ...files, [names.before]: before, [names.after]: after };
    const options = ['positions', 'layer'].flatMap(key => (state[key] ? ['--' + key, state[key]] : []));
    const answer = await ask(['check', word, '--before', names.before, '--after', names.after, ...options], all,
      { alone: true, signal: stop.signal, told });
    byId('mine-answer').replaceChildren(...verdictParts(answer));
    byId('mine-state').textContent = `${size} MB checked in ${rounded(seconds(), 2)} s`;
    if (answer.verdict === 'differs') await showWrong(word, all, names, options, answer, stop.signal);
  } catch (error) {
    byId('mine-state').textContent = '';
    byId('mine-answer').append(failure(error));
  } finally {
    clearInterval(timer);
    if (stopping === stop) byId('stop').disabled = true;
  }
}

const signs = { equal: '\u2713', differs: '\u2260', undecided: '?' };

function verdictParts(answer) {
  const { worst, first, diagnosis } = answer;
  const place = first && Object.entries(first).filter(([, at]) => at !== null).map(([what, at]) => `${what} ${at}`);
  const rows = [['largest difference', rounded(answer.max_error)], ['largest allowed', rounded(answer.tolerance)]];
  if (first) {
    rows.push(['the worst that is off', `${rounded(worst.error)}, where ${rounded(worst.allowed)} is allowed`],
              ['the first that is off', place.join(', ')]);
  }
  for (const key of ['tensor', 'layout', 'layer', 'rope']) rows.push([key, whole(answer[key])]);
  const sign = element('span', { 'aria-hidden': 'true' }, signs[answer.verdict] + ' ');
  const parts = [element('p', { class: 'verdict', id: 'verdict' }, sign, answer.verdict),
    element('p', {}, (diagnosis ?? answer).sentence),
    factTable('The evidence', rows)];
  for (const [name, one] of Object.entries(answer.tensors ?? {}))
    parts.push(quiet(`${name}: ${one.verdict}, largest difference ${rounded(one.max_error)}`));
  if (answer.would_show.length) parts.push(element('p', {}, `These data rule out: ${answer.would_show.join(', ')}.`));
  if (answer.would_not_show.length) parts.push(quiet(`They would not show: ${answer.would_not_show.join(', ')}.`));
  if (diagnosis) {
    parts.push(element('h3', {}, 'What the tensors show'));
    if (diagnosis.findings.length > 1) parts.push(bullets(diagnosis.findings));
    parts.push(factTable('The facts', factRows(diagnosis)));
  }
  return parts;
}

const factTable = (caption, rows) => element('div', { class: 'facts' },
  table(caption, ['fact', 'value'], rows.filter(([, value]) => value !== '-' && value !== '')));

function factRows(facts) {
  const keys = ['pairing', 'direction', 'first', 'rotary_dim', 'positions', 'inv_freq', 'base', 'scaling',
    'scaling_parameters', 'attention_factor', 'precision', 'layout', 'heads', 'residual'];
  return keys.filter(key => key in facts).map(key => [key.replaceAll('_', ' '), factText(facts[key])]);
}
function factText(value) {
  if (value === null || value === undefined) return 'not known';
  if (typeof value === 'number') return rounded(value, 6);
  if (Array.isArray(value) && value.every(Number.isInteger)) return ranges(value);
  if (Array.isArray(value)) return `${rounded(value[0])} to ${rounded(value.at(-1))}`;
  if (typeof value === 'string') return value;
  return Object.entries(value).map(([key, one]) => `${key} ${whole(one)}`).join(', ');
}

// ---- which elements are wrong ----

const decoders = {  // numbers of the elements of a tensor's bytes
  F32: bytes => floats(bytes),
  BF16: bytes => new Float32Array(Uint32Array.from(new Uint16Array(bytes.slice().buffer), half => half << 16).buffer),
  F16: bytes => Float32Array.from(new Uint16Array(bytes.slice().buffer), ofF16),
  F64: bytes => new Float64Array(bytes.slice().buffer),
};
function ofF16(half) {
  const exponent = half >> 10 & 31, fraction = half & 1023, sign = half & 32768 ? -1 : 1;
  if (exponent === 31) return fraction ? NaN : sign * Infinity;
  return sign * (exponent ? 2 ** (exponent - 15) * (1 + fraction / 1024) : 2 ** -24 * fraction);
}

// {dtype, shape, bytes} of a file's tensor.
function tensorIn(file, name) {
  if (file[0] !== 0x93) return tensorsOf(file)[name];
  const begin = 10 + file[8] + 256 * file[9], header = new TextDecoder().decode(file.subarray(10, begin));
  const dtype = { f4: 'F32', f2: 'F16', f8: 'F64' }[/'descr': '<(f\d)'/.exec(header)?.[1]];
  const shape = /'shape': \(([^)]*)\)/.exec(header)[1].split(',').filter(text => text.trim()).map(Number);
  return { dtype, shape, bytes: file.subarray(begin) };
}

// Draws where the tensor differs from what `apply` makes of the one before: the largest difference of each head of each
// token. A file of more than 64 MB would take the memory of the page.
async function showWrong(word, files, names, options, answer, signal) {
  if (!answer.layout || answer.layout === 'flat' || files[names.before].size > 64 << 20) return;
  const output = 'expected' + /\.\w+$/.exec(names.before)[0], npy = output.endsWith('.npy');
  const made = await ask(['apply', word, '--input', names.before, '--output', output, '--layout', answer.layout,
    ...options, ...(npy ? [] : ['--tensor', answer.tensor])], files, { alone: true, signal });
  const after = new Uint8Array(await files[names.after].arrayBuffer());
  const [expected, found] = [made.files[output], after].map(file => tensorIn(file, answer.tensor));
  if (!decoders[expected?.dtype] || !decoders[found?.dtype]) return;
  byId('mine-answer').append(...wrongPicture(largestDifferences(expected, found, answer.layout), answer));
}

// {rows, heads, values}: rows are the tokens of all batches.
function largestDifferences(expected, found, layout) {
  const sizes = {}, strides = {};
  let stride = 1;
  for (const [i, letter] of [...layout].entries()) sizes[letter] = expected.shape[i];
  for (const letter of [...layout].reverse()) {
    strides[letter] = stride;
    stride *= sizes[letter];
  }
  const { b = 1, t = 1, h = 1, d } = sizes, [x, y] = [expected, found].map(one => decoders[one.dtype](one.bytes));
  const values = new Float64Array(b * t * h);
  for (let i = 0; i < values.length; ++i) {
    const row = Math.floor(i / h);
    const at = Math.floor(row / t) * (strides.b ?? 0) + row % t * (strides.t ?? 0) + i % h * (strides.h ?? 0);
    for (let j = at; j < at + d; ++j) values[i] = Math.max(values[i], Math.abs(x[j] - y[j]));
  }
  return { rows: b * t, heads: h, values };
}

function wrongPicture({ rows, heads, values }, { tensor, tolerance }) {
  const canvas = element('canvas', { class: 'wrong-map', width: rows, height: heads, role: 'img' });
  const context = canvas.getContext('2d'), image = context.createImageData(rows, heads);
  const most = values.reduce((a, b) => Math.max(a, b), 0);
  let off = 0;
  values.forEach((value, i) => {
    const at = 4 * (i % heads * rows + Math.floor(i / heads)), is = value > tolerance;
    off += is;
    image.data.set([194, 74, 0, is ? 60 + Math.round(195 * value / most) : 0], at);
  });
  context.putImageData(image, 0, 0);
  canvas.style.height = `${Math.min(22 * heads, 320)}px`;
  const said = `${off} of ${values.length} heads of tokens of ${tensor || 'the tensor'} differ by more than ` +
    `${rounded(tolerance)}, by up to ${rounded(most)}. Tokens to the right, heads downwards; the stronger, the worse.`;
  canvas.setAttribute('aria-label', said);
  return [element('h3', {}, 'Where it differs'), figure(said, canvas)];
}
