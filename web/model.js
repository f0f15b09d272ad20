// Panel 1, a model: the text, what rotary reads from it, each rope's pairs; two models side by side.

const effectKinds = { kept: 0, blended: 1, stretched: 2, shortened: 2, still: 2 };

panels.set('model', { show: newest(showModel) });

async function showModel() {
  showModelSelects();
  try {
    const model = await modelOf(state.model);
    showText(model);
    const beside = state.beside ? await modelOf(state.beside) : null;
    await showRead(model, beside);
  } catch (error) {
    byId('model-answer').replaceChildren(failure(error));
    markError(error);
  }
  byId('model-state').textContent = '';
}

async function showRead(model, beside) {
  const models = beside ? [model, beside] : [model];
  const names = models.map(({ name }, i) => (i === 1 && name === model.name ? 'beside/' + name : name));
  const files = Object.fromEntries(models.map(({ data }, i) => [names[i], data]));
  const read = await ask(['inspect', ...names], files);
  const all = read.models ?? [read];
  const sentences = await Promise.all(names.map(name => inWords(name, files)));
  const differences = new Map((read.differences ?? []).map(({ rope, keys }) => [rope, keys]));
  const parts = [];
  all.forEach((one, i) => parts.push(...introduction(beside ? names[i] : '', models[i].source, one, sentences[i])));
  const ropes = Math.max(...all.map(one => one.ropes.length));
  for (let r = 0; r < ropes; ++r) {
    const shown = all.map(one => one.ropes[r]);
    parts.push(element('h3', {}, ropes > 1 ? `Rope ${r}` : 'The rope'),
               ropeTable(names, shown, differences.get(r) ?? []));
    if (shown.some(rope => rope?.wavelength.length)) parts.push(...pairsPicture(names, shown, r));
  }
  parts.push(...all.flatMap((one, i) => notes(one, all.length > 1 ? names[i] : '')));
  byId('model-answer').replaceChildren(...parts);
}

// The first lines of `inspect`: how the model rotates, a sentence for each rope.
async function inWords(name, files) {
  const { output } = await run(['inspect', name], files);
  return output.split('\n\n')[0].replace(/\n {2}/g, ' ').split('\n');
}

function introduction(name, source, { query_scales: scales }, [first, ...sentences]) {
  const multiplied = scales.map(({ layers, formula, from }) =>
    `queries of ${layers.length} layers are multiplied by ${formula}, at position p (${from})`);
  return [quiet(name ? element('strong', {}, name + ': ') : '', `${first} (${source})`),
          ...[...sentences, ...multiplied].map(sentence => element('p', {}, sentence))];
}

// The rows of a rope's table: [key in origins and differences, what is shown].
function ropeRows(rope) {
  const plain = keys => keys.map(key => [key, whole(rope[key])]), known = key => [key, whole(rope[key] || null)];
  const rows = [['part', rope.part], ['layers', ranges(rope.layers)],
    ['layers_without_rope', ranges(rope.layers_without_rope)],
    ...plain(['heads', 'kv_heads', 'head_dim', 'rotary_dim', 'first', 'pairing', 'direction']),
    ['axis_names', rope.axis_names.join(', ')], ['base', whole(rope.base)],
    ['scaling', rope.scaling === 'default' ? 'none' : rope.scaling]];
  for (const [key, value] of Object.entries(rope.scaling_parameters ?? {}))
    rows.push(['scaling.' + key, Array.isArray(value) ? `${value.length} numbers` : whole(value)]);
  return [...rows, ...plain(['attention_factor', 'softmax_factor']), known('trained_length'), known('context'),
          known('reach')];
}
const usual = { part: '', layers_without_rope: '-', first: '0', direction: 'counterclockwise', axis_names: '',
  softmax_factor: '1' };

function ropeTable(names, ropes, differing) {
  const rows = ropes.map(rope => new Map(rope ? ropeRows(rope) : []));
  const keys = [...new Set(rows.flatMap(row => [...row.keys()]))]
    .filter(key => rows.some(row => row.has(key) && row.get(key) !== usual[key]));
  const one = ropes.length === 1;
  const body = keys.map(key => {
    const differs = differing.includes(key) || (key.startsWith('scaling.') && differing.includes('scaling_parameters')
      && new Set(rows.map(row => row.get(key))).size > 1);
    const name = key.replace('scaling.', '').replaceAll('_', ' ');
    const cells = rows.map((row, i) => element('td', { class: 'value' }, row.get(key) ?? '-',
      one ? null : element('small', {}, originOf(ropes[i], key))));
    const sign = element('span', { class: 'sign' }, ' \u2260', element('span', { class: 'unseen' }, ' differs'));
    return element('tr', { class: differs ? 'differs' : null },
      element('th', { scope: 'row', class: key.startsWith('scaling.') ? 'inner' : null }, name, differs ? sign : null),
      ...cells, one ? element('td', { class: 'origin' }, originLink(ropes[0], key)) : null);
  });
  const heads = one ? ['', 'value', 'where it comes from'] : ['', ...names];
  return element('div', { class: 'wide' }, element('table', {},
    element('caption', { class: 'unseen' }, 'The values of the rope, and their origins'),
    element('thead', {}, element('tr', {}, ...heads.map(head => element(head ? 'th' : 'td', {}, head)))),
    element('tbody', {}, ...body)));
}

function originOf(rope, key) {
  const origin = rope?.origins[key];
  if (!origin) return '';
  return origin.origin === 'default' ? `default of ${origin.from}` : `${origin.origin}: ${origin.from}`;
}
// An origin that is a key of the text leads to its line.
function originLink(rope, key) {
  const origin = rope.origins[key], line = origin?.kind === 'given' ? lineOfKey(byId('config').value, origin.from) : 0;
  if (!line) return originOf(rope, key);
  return element('button', { type: 'button', class: 'plain', title: `line ${line} of the text`,
    onclick: () => selectLine(line) }, originOf(rope, key));
}

function pairsPicture(names, ropes, number) {
  const known = ropes.map((rope, series) => ({ rope, series })).filter(({ rope }) => rope);
  const lines = known.map(({ rope, series }) => ({ name: names[series], series, y: rope.wavelength,
    x: rope.wavelength.map((_, pair) => pair), points: rope.effect.map(effect => effectKinds[effect]) }));
  const mark = (what, y, series) => (y > 0 ? [{ name: `${what} ${grouped(y)}`, y, series }] : []);
  const marks = known.flatMap(({ rope, series }) =>
    [...mark('trained length', rope.trained_length, series), ...mark('context', rope.context, series)]);
  const effects = [...new Set(known.flatMap(({ rope }) => rope.effect))];
  const chart = lineChart(byId('model-answer').clientWidth, {
    label: `Wavelength of each pair of rope ${number} on a logarithmic scale, with the trained length and the context`,
    x: { label: 'pair' }, y: { label: 'tokens for one turn', log: true }, lines, marks });
  return [
    figure('The tokens that each pair needs for one turn', chart, legend([
      ...(ropes.length > 1 ? names.map((name, series) => ({ name, series })) : []),
      ...effects.map(effect => ({ name: effect, series: known[0].series, kind: effectKinds[effect] }))])),
    folded('The pairs as a table', pairsTable(names, known))];
}

function pairsTable(names, known) {
  const of = (name, i) => (names.length > 1 ? `${name} (${names[i]})` : name);
  const columns = ['inv_freq', 'wavelength', 'stretch', 'scaling'];
  const heads = ['pair', ...known.flatMap(({ series }) => columns.map(name => of(name, series)))];
  const most = Math.max(...known.map(({ rope }) => rope.inv_freq.length));
  const rows = Array.from({ length: most }, (_, pair) => [String(pair), ...known.flatMap(({ rope }) =>
    [whole(rope.inv_freq[pair]), whole(rope.wavelength[pair]), whole(rope.stretch[pair]), rope.effect[pair] ?? '-'])]);
  return table('The pairs', heads, rows, heads.filter(head => !head.startsWith('scaling')));
}

function notes(one, name) {
  if (one.noted.length === 0) return [];
  const of = part => (part ? element('code', {}, part + ' ') : '');
  return [element('h3', {}, name ? `Notes on ${name}` : 'Notes'),
          bullets(one.noted.map(note => [of(note.part), note.text]))];
}

// ---- the text ----

function showText({ text, name, source }) {
  const field = byId('config');
  byId('text-place').hidden = text === null;
  byId('no-text').hidden = text !== null;
  byId('no-text').textContent = `${name} is read from its header; it stays where it is.`;
  if (document.activeElement !== field && text !== null) field.value = text;
  byId('text-label').textContent = `${name} (${source})`;
  field.removeAttribute('aria-invalid');
  showLineNumbers(0);
}

function showLineNumbers(wrong) {
  const count = byId('config').value.split('\n').length;
  byId('line-numbers').replaceChildren(...Array.from({ length: count }, (_, i) =>
    element('span', { class: i + 1 === wrong ? 'wrong' : null }, `${i + 1}\n`)));
  byId('line-numbers').scrollTop = byId('config').scrollTop;
}

// The line of a key, as rope_scaling.factor, in a text; 0 if it has no such key.
function lineOfKey(text, path) {
  let at = 0;
  for (const key of path.split('.')) {
    at = text.indexOf(`"${key}"`, at);
    if (at < 0) return 0;
  }
  return text.slice(0, at).split('\n').length;
}

// Points to the line that an error's sentence is about: of a text that is no JSON the line that it states, else the
// key of the text that it names.
function markError(error) {
  const field = byId('config'), text = field.value, said = error.message;
  const stated = error.code === 'JSON' ? Number(/line (\d+)/.exec(said)?.[1] ?? 0) : 0;
  const keys = [...said.matchAll(/[\w.]+/g)].map(([word]) => word).filter(word => lineOfKey(text, word) > 0);
  const line = stated || (keys.length ? lineOfKey(text, keys[0]) : 0);
  field.setAttribute('aria-invalid', 'true');
  showLineNumbers(line);
  const button = element('button', { type: 'button', onclick: () => selectLine(line) }, `Go to line ${line}`);
  if (line) byId('model-answer').append(element('p', {}, button));
}

function selectLine(line) {
  const field = byId('config'), lines = field.value.split('\n');
  const begin = lines.slice(0, line - 1).reduce((sum, one) => sum + one.length + 1, 0);
  field.focus();
  field.setSelectionRange(begin, begin + lines[line - 1].length);
  field.scrollTop = (line - 3) * parseFloat(getComputedStyle(field).lineHeight);
}

const readTyped = newest(async text => {
  const name = state.model.startsWith('=') ? state.model.slice(1).split('/')[0] : 'config.json';
  chooseModel('model', await pack(name, text));
});
byId('config').oninput = event => readTyped(event.target.value);
byId('config').onscroll = () => { byId('line-numbers').scrollTop = byId('config').scrollTop; };
