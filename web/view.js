// What the panels share: elements, numbers, tables, files, the state in the address.

const byId = id => document.getElementById(id);

// element('p', {class: 'quiet'}, 'text', child): attributes that begin with "on" are listeners, and null children fall
// away.
function element(tag, attributes = {}, ...children) {
  return filled(document.createElement(tag), attributes, children);
}
function drawn(tag, attributes = {}, ...children) {
  return filled(document.createElementNS('http://www.w3.org/2000/svg', tag), attributes, children);
}
function filled(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith('on')) node.addEventListener(name.slice(2), value);
    else if (value === true) node.setAttribute(name, '');
    else if (value !== false && value !== null && value !== undefined) node.setAttribute(name, value);
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
const grouped = value => String(value).replace(/\B(?=(\d{3})+(?!\d))/g, '\u202f');

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
// row.
function table(caption, heads, rows, numeric = []) {
  const align = i => (numeric.includes(heads[i]) ? 'number' : null);
  const cells = row => row.map((cell, i) => element(i === 0 ? 'th' : 'td',
    { class: align(i), scope: i === 0 ? 'row' : null }, cell));
  const head = heads.map((name, i) => element('th', { scope: 'col', class: align(i) }, name));
  return element('table', {}, element('caption', { class: 'unseen' }, caption),
    element('thead', {}, element('tr', {}, ...head)),
    element('tbody', {}, ...rows.map(row => element('tr', {}, ...cells(row)))));
}
// What scrolls by itself, also with the keyboard.
const focused = label => ({ role: 'group', 'aria-label': label, tabindex: 0 });
const scrolling = (label, child) => element('div', { class: 'scrolling', ...focused(label) }, child);
const folded = (title, child) => element('details', {}, element('summary', {}, title), scrolling(title, child));
const quiet = (...children) => element('p', { class: 'quiet' }, ...children);
const bullets = items => element('ul', { class: 'notes' }, ...items.map(item => element('li', {}, ...[item].flat())));
const figure = (caption, ...children) => element('figure', {}, element('figcaption', {}, caption), ...children);

function failure(error) {
  return element('p', { class: 'failure', role: 'alert' }, error.code ? `${error.code}: ` : '', error.message);
}

function copyButton(label, text) {
  const button = element('button', { type: 'button', class: 'small', onclick: async () => {
    button.textContent = await navigator.clipboard.writeText(text()).then(() => 'Copied', () => 'The browser refused');
    setTimeout(() => { button.textContent = label; }, 1500);
  } }, label);
  return button;
}

function downloadLink(name, data) {
  const open = event => { event.target.href = URL.createObjectURL(new Blob([data])); };  // only then, since it stays
  return element('a', { href: '#', download: name.split('/').at(-1), onclick: open },
    `${name} (${grouped(data.length)} bytes)`);
}

// Runs only the newest of calls that overlap: a slider asks faster than the program answers. Returns a promise that all
// is done.
function newest(work) {
  let next = null, going = null;
  async function go() {
    try {
      while (next !== null) {
        const now = next;
        next = null;
        await work(...now);
      }
    } finally {
      going = null;
    }
  }
  return (...words) => {
    next = words;
    going ??= go();
    return going;
  };
}

// ---- the state in the address: #panel?key=value ----

const state = {};  // of strings
const defaults = {};
const panels = new Map();  // name: {show()}

function readAddress() {
  const [panel, query] = location.hash.slice(1).split('?');
  for (const key of Object.keys(state)) delete state[key];
  Object.assign(state, defaults, Object.fromEntries(new URLSearchParams(query ?? '')));
  state.panel = panels.has(panel) ? panel : 'model';
}
function addressOf(changes = {}) {
  const now = { ...state, ...changes }, query = new URLSearchParams();
  for (const [key, value] of Object.entries(now)) {
    if (key !== 'panel' && value !== (defaults[key] ?? '')) query.set(key, value);
  }
  const text = query.toString();
  return '#' + now.panel + (text ? '?' + text : '');
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

// Fields with data-state hold a value of the state; one that is being typed in is left alone.
function showFields() {
  for (const field of document.querySelectorAll('[data-state]')) {
    const value = state[field.dataset.state], typed = field === document.activeElement && field.tagName !== 'SELECT';
    if (value !== undefined && !typed) field.value = value;
  }
}

async function showPanel() {
  showFields();
  const section = byId('panel-' + state.panel);
  for (const one of document.querySelectorAll('main > section')) one.hidden = one !== section;
  for (const link of document.querySelectorAll('nav a')) {
    link.setAttribute('href', addressOf({ panel: link.dataset.panel }));
    if (link.dataset.panel === state.panel) link.setAttribute('aria-current', 'page');
    else link.removeAttribute('aria-current');
  }
  section.setAttribute('aria-busy', 'true');
  try {
    await panels.get(state.panel).show();
  } finally {
    section.removeAttribute('aria-busy');
  }
}
