// Panel 1, a model: the text, what rotary reads from it, each rope's pairs; two models side by side.

const effectKinds = { kept: 0, blended: 1, stretched: 2, shortened: 2, still: 2 };

addPanel('model', async () => {
  const model = await modelOf(state.model);
  showText(model);
  try {
    return await readParts(state.beside ? [model, await modelOf(state.beside)] : [model]);
  } catch (error) {  // only an error of the text that is shown has a line of it
    const { name, data, text } = model, read = text !== null && askOnce(['inspect', name], { [name]: data });
    const own = read && await read.then(() => null, one => one);
    return own ? [failure(own), ...lineOfError(own)] : [failure(error)];
  }
});

// The program's reading of one or two models, as elements.
async function readParts(models) {
  const names = models.map(({ name }, i) => (i === 1 && name === models[0].name ? 'beside/' + name : name));
  const files = Object.fromEntries(models.map(({ data }, i) => [names[i], data]));
  const read = await ask(['inspect', ...names], files), all = read.models ?? [read];
  const differences = new Map((read.differences ?? []).map(({ rope, keys }) => [rope, keys]));
  const label = i => (all.length > 1 ? names[i] : ''), parts = [];
  for (const [i, one] of all.entries())
    parts.push(...await introduction(names[i], models[i].source, one, files, label(i)));
  const ropes = Math.max(...all.map(one => one.ropes.length));
  for (let r = 0; r < ropes; ++r) {
    const shown = all.map(one => one.ropes[r]);
    parts.push(element('h3', {}, ropes > 1 ? `Rope ${r}` : 'The rope'),
               ropeTable(names, shown, differences.get(r) ?? []));
    if (shown.some(rope => rope?.wavelength.length)) parts.push(...pairsPicture(names, shown, r));
  }
  return [...parts, ...all.flatMap((one, i) => notes(one, label(i)))];
}

// How a model rotates: the first lines of `inspect`, a sentence for each rope, and how it multiplies queries.
async function introduction(name, source, { query_scales: scales }, files, label) {
  const { output } = await run(['inspect', name], files);
  const [first, ...sentences] = output.split('\n\n')[0].replace(/\n {2}/g, ' ').split('\n');
  const multiplied = scales.map(({ layers, formula, from }) =>
    `queries of ${layers.length} layers are multiplied by ${formula}, at position p (${from})`);
  return [quiet(label ? element('strong', {}, label + ': ') : '', `${first} (${source})`),
          ...[...sentences, ...multiplied].map(sentence => element('p', {}, sentence))];
}

// The rows of a rope's table: [key in origins and differences, what is shown].
function ropeRows(rope) {
  const plain = keys => keys.map(key => [key, whole(rope[key])]), known = key => [key, whole(rope[key] || null)];
  return [['part', rope.part], ['layers', ranges(rope.layers)],
    ['layers_without_rope', ranges(rope.layers_without_rope)],
    ...plain(['heads', 'kv_heads', 'head_dim', 'rotary_dim', 'first', 'pairing', 'direction']),
    ['axis_names', rope.axis_names.join(', ')], ['base', whole(rope.base)],
    ['scaling', rope.scaling === 'default' ? 'none' : rope.scaling],
    ...Object.entries(rope.scaling_parameters ?? {}).map(([key, value]) =>
      ['scaling.' + key, Array.isArray(value) ? `${value.length} numbers` : whole(value)]),
    ...plain(['attention_factor', 'softmax_factor']), ...['trained_length', 'context', 'reach'].map(known)];
}
const usual = { part: '', layers_without_rope: '-', first: '0', direction: 'counterclockwise', axis_names: '',
  softmax_factor: '1' };

function ropeTable(names, ropes, differing) {
  const rows = ropes.map(rope => new Map(rope ? ropeRows(rope) : []));
  const keys = [...new Set(rows.flatMap(row => [...row.keys()]))]
    .filter(key => rows.some(row => row.has(key) && row.get(key) !== usual[key]));
  const one = ropes.length === 1, heads = one ? ['', 'value', 'where it comes from'] : ['', ...names];
  const made = table('The values of the rope, and their origins', heads, keys.map(key => {
    const differs = differing.includes(key) || (key.startsWith('scaling.') && differing.includes('scaling_parameters')
      && new Set(rows.map(row => row.get(key))).size > 1);
    const sign = element('span', { class: 'sign' }, ' \u2260', element('span', { class: 'unseen' }, ' differs'));
    const name = key.replace('scaling.', '').replaceAll('_', ' ');
    const cells = rows.map((row, i) => element('td', { class: 'value' }, row.get(key) ?? '-',
      one ? null : element('small', {}, originOf(ropes[i], key))));
    const inner = key.startsWith('scaling.') ? 'inner' : null;
    return [element('th', { scope: 'row', class: inner }, name, differs ? sign : null), ...cells,
            ...(one ? [element('td', { class: 'origin' }, originLink(ropes[0], key))] : [])];
  }));
  return element('div', { class: 'wide' }, made);
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
  return pressed(originOf(rope, key), () => selectLine(line), { class: 'plain', title: `line ${line} of the text` });
}

function pairsPicture(names, ropes, number) {
  const known = ropes.map((rope, series) => ({ rope, series })).filter(({ rope }) => rope);
  const lines = known.map(({ rope, series }) => ({ name: names[series], series, y: rope.wavelength,
    x: [...rope.wavelength.keys()], points: rope.effect.map(effect => effectKinds[effect]) }));
  const marks = known.flatMap(({ rope, series }) => ['trained length', 'context'].map(what =>
    ({ what, y: rope[what.replace(' ', '_')], series }))).filter(({ y }) => y > 0);
  const effects = [...new Set(known.flatMap(({ rope }) => rope.effect))];
  return [
    picture({ label: `The tokens that each pair of rope ${number} needs for one turn`,
      x: { label: 'pair', whole: true }, y: { label: 'tokens for one turn', log: true }, lines,
      marks: marks.map(mark => ({ ...mark, name: `${mark.what} ${grouped(mark.y)}` })) },
    [...(ropes.length > 1 ? names.map((name, series) => ({ name, series })) : []),
     ...effects.map(effect => ({ name: effect, series: known[0].series, kind: effectKinds[effect] }))]),
    pairsTable(known.flatMap(({ rope, series }) =>
      Object.entries({ inv_freq: 'inv_freq', wavelength: 'wavelength', stretch: 'stretch', scaling: 'effect' })
        .map(([name, key]) => ({ name: ropes.length > 1 ? `${name} (${names[series]})` : name, values: rope[key] }))))];
}

function notes(one, name) {
  if (one.noted.length === 0) return [];
  return [element('h3', {}, name ? `Notes on ${name}` : 'Notes'),
          bullets(one.noted.map(({ part, text }) => [part && element('code', {}, part + ' '), text]))];
}

// ---- the text ----

function showText({ text, name, source }) {
  const field = byId('config');
  byId('text-place').hidden = text === null;
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

// A button that leads to the line that an error's sentence is about: of a text that is no JSON the line that it states,
// else the key of the text that it names.
function lineOfError({ code, message }) {
  const field = byId('config'), stated = code === 'JSON' ? /line (\d+)/.exec(message) : null;
  const named = (message.match(/[\w.]+/g) ?? []).map(word => lineOfKey(field.value, word));
  const line = [Number(stated?.[1]), ...named].find(one => one > 0) ?? 0;
  field.setAttribute('aria-invalid', 'true');
  showLineNumbers(line);
  return line ? [element('p', {}, pressed(`Go to line ${line}`, () => selectLine(line)))] : [];
}

function selectLine(line) {
  const field = byId('config'), lines = field.value.split('\n');
  const begin = lines.slice(0, line - 1).reduce((sum, one) => sum + one.length + 1, 0);
  field.focus();
  field.setSelectionRange(begin, begin + lines[line - 1].length);
  field.scrollTop = (line - 3) * parseFloat(getComputedStyle(field).lineHeight);
}

const readTyped = newest(async text => {
  const name = state.model.startsWith('=') ? ownName(state.model) : 'config.json';
  chooseModel('model', await pack(name, text));
});
byId('config').oninput = event => readTyped(event.target.value);
byId('config').onscroll = () => { byId('line-numbers').scrollTop = byId('config').scrollTop; };
