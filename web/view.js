// The panels share these: elements, numbers, tables, files, the state in the address.

const byId = id => document.getElementById(id);

// element('p', {class: 'quiet'}, 'text', child): attributes that begin with "on" are listeners, and null children fall
// away.
const drawnTags = ['svg', 'path', 'line', 'circle', 'text', 'foreignObject'];
function element(tag, attributes = {}, ...children) {
  const space = drawnTags.includes(tag) ? 'http://www.w3.org/2000/svg' : 'http://www.w3.org/1999/xhtml';
  const node = document.createElementNS(space, tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith('on')) node.addEventListener(name.slice(2), value);
    else if (![false, null, undefined].includes(value)) node.setAttribute(name, value === true ? '' : value);
  }
  node.append(...children.filter(child => child !== null && child !== undefined));
  return node;
}

// A number with all its digits, or rounded for an axis or a sentence.
const whole = value => (value === null || value === undefined ? '-' : String(value));
function rounded(value, digits = 4) {
  if (value === null || value === undefined) return '-';
  const size = Math.abs(value);
  if (size !== 0 && (size >= 1e7 || size < 1e-3)) return value.toExponential(digits - 1).replace('e+', 'e');
  return Number.isInteger(value) ? String(value) : String(Number(value.toPrecision(digits)));
}
const grouped = value => String(value).replace(/(?<!\.\d*)\B(?=(\d{3})+(?!\d))/g, '\u202f');

// "0-3, 5" of 0, 1, 2, 3, 5.
function ranges(numbers) {
  const runs = [];
  for (const n of numbers) {
    if (runs.length > 0 && runs.at(-1)[1] === n - 1) runs.at(-1)[1] = n;
    else runs.push([n, n]);
  }
  return runs.map(([first, last]) => (first === last ? first : `${first}-${last}`)).join(', ') || '-';
}

// A table with a caption. heads: names, of which those in `numeric` are aligned at the right. The first cell heads its
// row. A cell is a text, a list of nodes, or an element td or th.
function table(caption, heads, rows, numeric = []) {
  const cell = (tag, content, i) => (content instanceof HTMLTableCellElement ? content
    : element(tag, { class: numeric.includes(heads[i]) ? 'number' : null }, ...[content].flat()));
  const row = cells => element('tr', {}, ...cells);
  return element('table', {}, element('caption', { class: 'unseen' }, caption),
    element('thead', {}, row(heads.map((name, i) => cell(name ? 'th' : 'td', name, i)))),
    element('tbody', {}, ...rows.map(cells => row(cells.map((content, i) => cell(i ? 'td' : 'th', content, i))))));
}
// A table with a row for each pair. columns: [{name, values, text}], text is how a value is shown.
function pairsTable(columns) {
  const heads = ['pair', ...columns.map(({ name }) => name)];
  const rows = Array.from({ length: Math.max(...columns.map(({ values }) => values.length)) }, (_, pair) =>
    [String(pair), ...columns.map(({ values, text = whole }) => text(values[pair]))]);
  return folded('The pairs as a table', table('The pairs', heads, rows, heads));
}
// The attributes of a part that scrolls by itself, also with the keyboard.
const focused = label => ({ role: 'group', 'aria-label': label, tabindex: 0 });
const scrolling = (label, child) => element('div', { class: 'scrolling', ...focused(label) }, child);
const folded = (title, child) => element('details', {}, element('summary', {}, title), scrolling(title, child));
const quiet = (...children) => element('p', { class: 'quiet' }, ...children);
const bullets = items => element('ul', { class: 'notes' }, ...items.map(item => element('li', {}, ...[item].flat())));

const pressed = (label, onclick, more) => element('button', { type: 'button', onclick, ...more }, label);
const option = (value, text, more) => element('option', { value, ...more }, text);

function failure(error) {
  return element('p', { class: 'failure', role: 'alert' }, error.code ? `${error.code}: ` : '', error.message);
}

function copyButton(label, text) {
  return pressed(label, async ({ target }) => {
    target.textContent = await navigator.clipboard.writeText(text()).then(() => 'Copied', () => 'The browser refused');
    setTimeout(() => { target.textContent = label; }, 1500);
  });
}

function downloadLink(name, data) {
  const open = event => { event.target.href = URL.createObjectURL(new Blob([data])); };  // only then, since it stays
  return element('a', { href: '#', download: name.split('/').at(-1), onclick: open },
    `${name} (${grouped(data.length)} bytes)`);
}

// Runs only the newest of calls that overlap: a slider asks faster than the program answers.
function newest(work) {
  let last = 0, done = Promise.resolve();
  return (...words) => {
    const number = ++last;
    done = done.catch(() => {}).then(() => number === last && work(...words));
    return done;
  };
}

// ---- the state in the address: #panel?key=value ----

const state = {};  // each value is a string
const defaults = {};

function showAddress() {
  const [panel, query] = location.hash.slice(1).split('?');
  for (const key of Object.keys(state)) delete state[key];
  Object.assign(state, defaults, Object.fromEntries(new URLSearchParams(query ?? '')));
  state.panel = panels.has(panel) ? panel : 'model';
  showPanel();
}
function addressOf(changes) {
  const kept = Object.entries({ ...state, ...changes }).filter(([key, value]) => value !== (defaults[key] ?? ''));
  const { panel, ...query } = Object.fromEntries(kept), text = String(new URLSearchParams(query));
  return '#' + panel + (text ? '?' + text : '');
}
// Changes the state, what is shown, and in a moment the address, which browsers do not let change at each step of a
// slider.
let addressTimer = 0;
function change(changes) {
  Object.assign(state, changes);
  clearTimeout(addressTimer);
  addressTimer = setTimeout(() => history.replaceState(null, '', addressOf()), 250);
  showPanel();
}

// Fields with data-state show a value of the state; one that is being typed in is left alone.
function showFields(values) {
  for (const field of document.querySelectorAll('[data-state]')) {
    const value = values[field.dataset.state], typed = field === document.activeElement && field.tagName !== 'SELECT';
    if (value !== undefined && !typed) field.value = value;
  }
}
// The slider of a value of the state, `key`-slider: its steps, and the value at each.
function wireSlider(key, valueOfStep) {
  byId(key + '-slider').oninput = event => change({ [key]: String(valueOfStep(Number(event.target.value))) });
}
function showSlider(key, step, text) {
  const slider = byId(key + '-slider');
  if (document.activeElement !== slider) slider.value = step;
  slider.setAttribute('aria-valuetext', text);
}

// ---- the panels ----

const panels = new Map();  // name: a function that shows it

// A panel whose answer is what parts() gives, or the sentence of its error.
function addPanel(name, parts) {
  panels.set(name, newest(async () =>
    byId(name + '-answer').replaceChildren(...await parts().catch(error => [failure(error)]))));
}

let timesShown = 0;
async function showPanel() {
  const number = ++timesShown, [main] = document.getElementsByTagName('main');
  showFields(state);
  showModelSelects();
  for (const section of main.children) section.hidden = section.id !== 'panel-' + state.panel;
  for (const link of document.querySelectorAll('nav a')) {
    const { panel } = link.dataset;
    link.href = addressOf({ panel });
    link.setAttribute('aria-current', panel === state.panel ? 'page' : 'false');
  }
  main.setAttribute('aria-busy', 'true');
  await panels.get(state.panel)();
  if (number === timesShown) main.removeAttribute('aria-busy');
}
