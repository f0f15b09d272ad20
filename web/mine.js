// Panel 4, is mine right? `rotary check` of two files, in an instance of its own that can be stopped.

panels.set('mine', () => {});

let stopping = null;  // the AbortController of the check that runs

byId('mine-form').onsubmit = () => check(() => ['before', 'after'].map(id => byId(id).files[0]));
byId('stop').onclick = () => stopping?.abort(new Error('stopped'));
byId('example').onclick = () => check(exampleFiles);

// Files that were dropped: the one with "before", or the word "in" or "input", in its name is before, else the first.
function takeTensors(files) {
  if (state.panel !== 'mine') change({ panel: 'mine' });
  const isBefore = ({ name }) => /before|(?<![a-z])in(puts?)?(?![a-z])/i.test(name);
  const [first, second] = [...files].sort((a, b) => isBefore(b) - isBefore(a));
  for (const [id, file] of [['before', first], ['after', second ?? first]]) {
    const list = new DataTransfer();
    list.items.add(file);
    if (second || !byId(id).files[0]) byId(id).files = list.files;
  }
}

// q in the shape of the model, rotated with one mistake: without its scaling, else with another base.
async function exampleFiles() {
  const { word, files } = await chosenModel(), { ropes: [rope] } = await askOnce(['inspect', word], files);
  if (!rope) throw new Error(`${word} has no rope`);
  const shape = [64, rope.kv_heads, rope.head_dim];
  const before = npyOf(drawnNumbers(shape[0] * shape[1] * shape[2]), shape);
  const mistake = rope.scaling === 'default' ? ['--base', rope.base === 10000 ? '500000' : '10000']
                                             : ['--scaling', 'none'];
  const { files: made } = await ask(['apply', word, '--rope', '0', ...mistake, '--layout', 'thd', '--input', 'q.npy',
    '--output', 'engine.npy'], { ...files, 'q.npy': before });
  return [new File([before], 'q.npy'), new File([made['engine.npy']], 'engine.npy')];
}

const megabytesAtMost = 550;  // `check` takes seven times as much, of the 4 GB that the program has

async function check(filesOf) {
  const began = performance.now(), said = byId('mine-state'), answer = byId('mine-answer');
  const told = text => { said.textContent = text.trim() || said.textContent; };  // "steps of check: 3 of 8, 37 %"
  stopping?.abort(new Error('another check was started'));
  const { signal } = stopping = new AbortController();
  byId('stop').disabled = false;
  answer.replaceChildren();
  try {
    const [before, after] = await filesOf();
    const size = Math.round((before.size + after.size) / 1e5) / 10;
    told(`reading ${size} MB`);
    if (size > megabytesAtMost)
      throw new Error(`the page has memory for two files of ${megabytesAtMost} MB together: rotary check takes these`);
    const { word, files } = await chosenModel();
    const names = { before: 'before/' + before.name, after: 'after/' + after.name };
    const all = { ...files, [names.before]: before, [names.after]: after };
    const options = ['positions', 'layer'].flatMap(key => (state[key] ? ['--' + key, state[key]] : []));
    const verdict = await ask(['check', word, '--before', names.before, '--after', names.after, ...options], all,
      { signal, told });
    answer.replaceChildren(...verdictParts(verdict));
    said.textContent = `${size} MB checked in ${rounded((performance.now() - began) / 1000, 2)} s`;
    if (verdict.verdict === 'differs') await showWrong(word, all, names, options, verdict, signal);
  } catch (error) {
    said.textContent = '';
    answer.append(failure(error));
  } finally {
    if (stopping.signal === signal) byId('stop').disabled = true;
  }
}

const signs = { equal: '\u2713', differs: '\u2260', undecided: '?' };

function verdictParts(answer) {
  const { diagnosis } = answer;
  const sign = element('span', { 'aria-hidden': 'true' }, signs[answer.verdict] + ' ');
  const shown = ({ findings }) => [element('h3', {}, 'What the tensors show'),
    findings.length > 1 ? bullets(findings) : '', factTable('The facts', diagnosis, facts)];
  return [
    element('p', { class: 'verdict', id: 'verdict' }, sign, answer.verdict),
    element('p', {}, (diagnosis ?? answer).sentence),
    factTable('The evidence', answer, evidence),
    ...Object.entries(answer.tensors ?? {}).map(([name, one]) =>
      quiet(`${name}: ${one.verdict}, largest difference ${rounded(one.max_error)}`)),
    answer.would_show.length ? element('p', {}, `These data rule out: ${answer.would_show.join(', ')}.`) : '',
    answer.would_not_show.length ? quiet(`They would not show: ${answer.would_not_show.join(', ')}.`) : '',
    ...(diagnosis ? shown(diagnosis) : [])];
}

// Keys of the JSON, in the order of the tables.
const evidence = ['max_error', 'tolerance', 'worst', 'first', 'tensor', 'layout', 'layer', 'rope'];
const facts = ['pairing', 'direction', 'first', 'rotary_dim', 'positions', 'inv_freq', 'base', 'scaling',
  'scaling_parameters', 'attention_factor', 'precision', 'layout', 'heads', 'residual'];

// The facts that are known.
function factTable(caption, values, keys) {
  const rows = keys.map(key => [key.replaceAll('_', ' '), factText(values[key])]).filter(([, text]) => text !== '');
  return element('div', { class: 'facts' }, table(caption, ['fact', 'value'], rows));
}
function factText(value) {
  if (value === null || value === undefined) return '';
  if (typeof value === 'number') return rounded(value, 6);
  if (typeof value === 'string') return value;
  if (Array.isArray(value) && value.every(Number.isInteger)) return ranges(value);
  if (Array.isArray(value)) return `${rounded(value[0])} to ${rounded(value.at(-1))}`;
  const texts = Object.entries(value).map(([key, one]) => [key, factText(one)]).filter(([, text]) => text !== '');
  return texts.map(([key, text]) => `${key} ${text}`).join(', ');
}

// Draws where the tensor differs from what `apply` makes of the one before: the largest difference of each head of each
// token. A file of more than 64 MB would take the memory of the page.
async function showWrong(word, files, names, options, answer, signal) {
  if (!answer.layout || answer.layout === 'flat' || files[names.before].size > 64 << 20) return;
  const output = 'expected' + /\.\w+$/.exec(names.before)[0], npy = output.endsWith('.npy');
  const made = await ask(['apply', word, '--input', names.before, '--output', output, '--layout', answer.layout,
    ...options, ...(npy ? [] : ['--tensor', answer.tensor])], files, { signal });
  const after = new Uint8Array(await files[names.after].arrayBuffer());
  const tensors = [made.files[output], after].map(file =>
    (file[0] === 0x93 ? tensorOfNpy(file) : tensorsOf(file)[answer.tensor]));  // 0x93 begins an .npy
  const [expected, found] = tensors.map(one => one && floats(one));
  if (expected && found) byId('mine-answer').append(...wrongPicture(tensors[0].shape, expected, found, answer));
}

function wrongPicture(shape, expected, found, { tensor, layout, tolerance }) {
  const each = of => Object.fromEntries([...layout].map((letter, i) => [letter, of(i)]));
  const { b = 1, t = 1, h = 1, d } = each(i => shape[i]);
  const { b: ofBatch = 0, t: ofToken = 0, h: ofHead = 0 } =
    each(i => shape.slice(i + 1).reduce((product, size) => product * size, 1));
  const step = Math.ceil(b * t / 2000), columns = Math.ceil(b * t / step);  // tokens in a column of the picture
  const worst = new Float64Array(columns * h);
  let off = 0;
  for (let i = 0; i < b * t * h; ++i) {
    const token = Math.floor(i / h), begin = Math.floor(token / t) * ofBatch + token % t * ofToken + i % h * ofHead;
    const cell = i % h * columns + Math.floor(token / step);
    let most = 0;
    for (let j = begin; j < begin + d; ++j) most = Math.max(most, Math.abs(expected[j] - found[j]));
    worst[cell] = Math.max(worst[cell], most);
    off += most > tolerance;
  }
  const most = worst.reduce((one, other) => Math.max(one, other), 0);
  const label = `${off} of ${b * t * h} heads of tokens of ${tensor || 'the tensor'} differ by more than ` +
    `${rounded(tolerance)}, by up to ${rounded(most)}; the stronger, the worse.`;
  const map = mapOf(columns, worst.map(value => (value > tolerance ? -value - most / 4 : 0)));
  map.x[1] = b * t - 0.5;
  return [element('h3', {}, 'Where it differs'),
    picture({ label, x: { label: 'token', whole: true }, y: { label: 'head', whole: true }, map }, [])];
}
