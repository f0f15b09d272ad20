// Which models the panels are about: built in, dropped, chosen, or written in the text field.
//   state.model, state.beside   the name of a built-in model; "=" and a packed text, which the address then carries; or
//                               "file:" and the name of a file that is only here; beside may be ""

const builtIn = JSON.parse(byId('models').textContent);  // [{name, source, text}], from web/join.py
const packLimit = 20000;  // characters of a config that an address carries

const through = (bytes, stream) => new Response(new Blob([bytes]).stream().pipeThrough(stream)).bytes();
const base64 = { alphabet: 'base64url', omitPadding: true };
// "=NAME/TEXT", the text deflated and in base64 with - and _.
async function pack(name, text) {
  const packed = await through(new TextEncoder().encode(text), new CompressionStream('deflate-raw'));
  return `=${name}/${packed.toBase64(base64)}`;
}
async function unpack(value) {
  try {
    const packed = Uint8Array.fromBase64(value.split('/')[1], base64);
    return new TextDecoder().decode(await through(packed, new DecompressionStream('deflate-raw')));
  } catch {
    throw new Error(`the text of ${ownName(value)} is broken in this link`);
  }
}
// The page's name of a model that is not built in.
const ownName = value => value.replace(/^=|\/.*|^file:/g, '');

// {name, data, text, source} of a value of state.model; text is null of a file that is no text (a GGUF).
async function modelOf(value) {
  const name = ownName(value), file = openFiles.get(name), model = builtIn.find(one => one.name === value);
  const given = text => ({ data: text, text });
  if (value.startsWith('=')) return { name, source: 'your text', ...given(await unpack(value)) };
  if (model) return { name: name + '.json', source: model.source, ...given(model.text) };
  if (!value.startsWith('file:')) throw new Error(`no model named ${value} is built in`);
  if (!file) throw new Error(`${name} was opened in another window: open it again`);
  return { name, source: 'your file, read from its header', data: file, text: null };
}

// The word and the files of a command about state.model.
async function chosenModel() {
  const { name, data } = await modelOf(state.model);
  return { word: name, files: { [name]: data } };
}

// Takes a file that was dropped or chosen as `key` ("model" or "beside"), in place of an older one of its name.
async function takeFile(key, file) {
  byId('config').blur();  // a field with the focus keeps its text
  if (openFiles.delete(file.name)) keepFiles([]);
  const isText = file.size < 1 << 20 && !file.name.endsWith('.gguf');
  const packed = isText ? await pack(file.name.replaceAll('/', '_'), await file.text()) : '';
  if (isText && packed.length <= packLimit) return chooseModel(key, packed);
  keepFiles([[file.name, file]]);
  chooseModel(key, 'file:' + file.name);
}
// A chosen model is also the rope that turns; a vector that was typed for another rope does not fit it.
function chooseModel(key, value) {
  const turning = { of: '0', vectors: state.vectors === 'typed' ? 'equal' : state.vectors };
  change({ [key]: value, ...(key === 'model' ? { ...turning, rope: '' } : {}) });
}

for (const key of ['model', 'beside']) {
  byId(key + '-select').onchange = event => chooseModel(key, event.target.value);
  byId(key + '-file').onchange = event => event.target.files[0] && takeFile(key, event.target.files[0]);
}
function showModelSelects() {
  byId('beside-bar').hidden = state.panel !== 'model';
  if (!['longer', 'exact'].includes(state.panel)) byId('rope-bar').hidden = true;
  for (const key of ['model', 'beside']) {
    const select = byId(key + '-select'), values = new Set([...builtIn.map(({ name }) => name), state[key]]);
    if (key === 'beside') values.add('');
    select.replaceChildren(...[...values].map(value => option(value, ownName(value) || 'none')));
    select.value = state[key];
  }
}

// The rope of the chosen model that a panel is about, as `inspect` has it, and the words that name it. Without words
// the command chooses.
async function ropeChosen() {
  const { word, files } = await chosenModel(), { ropes } = await askOnce(['inspect', word], files);
  byId('rope-bar').hidden = ropes.length < 2;
  byId('rope').replaceChildren(option('', 'as the command chooses'), ...ropes.map(({ part, base, layers }, i) =>
    option(i, `${i}, ${part && part + ', '}base ${whole(base)}, ${layers.length} layers`)));
  showFields(state);
  return { rope: ropes[Number(state.rope)], words: state.rope ? ['--rope', state.rope] : [] };
}
