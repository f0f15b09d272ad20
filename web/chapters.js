// The chapters of `rotary explain` in panel 2: their Markdown as elements, and the figure of each.

// The state of the figure that a chapter speaks about, beside the first one's.
const firstFigure = { of: 'plain', base: '10000', dim: '2', pairing: 'interleaved', key: '0', distance: '1', pair: '0',
  vectors: 'typed', q: '3 1', k: '3 1', reach: '64', wrong: '', picture: 'distance', below: '0', right: '1' };
const figures = {
  1: {},
  2: { k: '2 2', key: '2', distance: '3' },
  3: { dim: '4', q: '1 0 1 0', k: '1 0 1 0', distance: '44' },
  4: { dim: '8', vectors: 'equal', distance: '10', picture: 'table' },
  5: { dim: '4', q: '1 2 3 4', k: '1 2 3 4', distance: '2' },
  6: { k: '2 2', key: '2', distance: '3' },
  7: { dim: '4', q: '1 2 3 4', k: '4 1 3 2', key: '4', distance: '3', wrong: 'pairing' },
  8: { dim: '128', vectors: 'equal', distance: '44', reach: '32768' },
  9: { model: 'pythia-1.4b', of: '0', vectors: 'equal', reach: '512' },
  10: { dim: '128', vectors: 'random', key: '100', distance: '3', wrong: 'offset' },
  11: { model: 'llama-3.1-8b', of: '0', vectors: 'equal', distance: '16384', reach: '131072', wrong: 'scaling' },
  12: { dim: '128', vectors: 'equal', key: '1000000', reach: '64', wrong: 'angles' },
  13: { model: 'qwen2-vl-7b', of: '1', vectors: 'equal', picture: 'patches' },
  14: { model: 'deepseek-v3', of: '0', vectors: 'equal', reach: '4096' },
  15: { model: 'llama-3.1-8b', of: '0', vectors: 'equal', distance: '8192', reach: '131072' },
};
const figureOf = chapter => ({ ...firstFigure, ...figures[chapter], chapter: String(chapter) });

async function showChapter() {
  const number = Number(state.chapter), place = byId('chapter');
  if (place.dataset.number === state.chapter) return;
  const list = (await ask(['explain'])).chapters, [{ markdown: text }] = (await ask(['explain', number])).chapters;
  const select = element('select', { id: 'chapter-select', 'aria-label': 'chapter',
    onchange: event => goToChapter(event.target.value) }, ...list.map(({ number: one, title }) =>
    option(one, `${one}. ${title}`, { selected: one === number })));
  const step = (label, to) => pressed(label, () => goToChapter(to), { disabled: to < 1 || to > list.length });
  place.dataset.number = state.chapter;
  place.replaceChildren(
    element('div', { class: 'controls' },
      element('div', {}, select, step('Previous', number - 1), step('Next', number + 1))),
    ...text.match(blocks).flatMap(blockNodes),
    element('p', {}, step('Next chapter', number + 1), ' ', pressed('Its figure', () => change(figureOf(number)))));
}
function goToChapter(number) {
  change(figureOf(number));
  byId('chapter').focus();
  byId('chapter').scrollIntoView();
}

// ---- Markdown: what docs/explain uses of it ----

const blocks = /^```[^]*?\n```$|(?:^(?!```).+\n?)+/gm;  // an example, or lines up to an empty one

function blockNodes(block) {
  const lines = block.trimEnd().split('\n'), title = /^(#+) (.*)/.exec(block);
  if (block.startsWith('```')) return element('pre', focused('example'), block.replace(/^.*\n|\n```$/g, ''));
  if (title) return element(`h${title[1].length + 2}`, {}, ...inline(title[2]));
  if (block.startsWith('|')) return markdownTable(lines);
  if (block.startsWith('* '))
    return bullets(block.split(/^\* /m).slice(1).map(item => inline(item.trim().replace(/\n */g, ' '))));
  if (block.startsWith('![')) return [];  // the page has a live figure
  return element('p', {}, ...inline(lines.join(' ')));
}
function markdownTable([head, rule, ...rows]) {
  const cells = line => line.split('|').slice(1, -1).map(cell => cell.trim()), rules = cells(rule);
  const heads = cells(head).map(inline), numeric = heads.filter((_, i) => rules[i].endsWith(':'));
  return scrolling('table', table('table', heads, rows.map(line => cells(line).map(inline)), numeric));
}
function inline(text) {
  return text.split(/(`[^`]+`|\[[^\]]+\]\([^)]+\))/).map(part => {
    if (part.startsWith('`')) return element('code', {}, part.slice(1, -1));
    const link = /^\[([^\]]+)\]\(([^)]+)\)$/.exec(part), chapter = link && /^(\d\d)-/.exec(link[2]);
    if (!link || !chapter) return link ? link[1] : part;
    return element('a', { href: addressOf(figureOf(Number(chapter[1]))) }, link[1]);
  });
}
