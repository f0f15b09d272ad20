// Panel 5, how exact: the errors of the common ways to compute cos and sin, by the size of the position.

panels.set('exact', { show: newest(showExact) });
const studies = new Map();  // state.model and rope: the promise of an answer, since it takes seconds

function studyOf({ word, files }) {
  const key = state.model;
  if (!studies.has(key)) {
    studies.set(key, ask(['accuracy', word], files, { alone: true }));
    studies.get(key).catch(() => studies.delete(key));
  }
  return studies.get(key);
}

async function showExact() {
  showModelSelects();
  byId('exact-state').textContent = 'measuring: some seconds';
  try {
    const study = await studyOf(await chosenModel());
    byId('exact-answer').replaceChildren(...exactParts(study));
  } catch (error) {
    byId('exact-answer').replaceChildren(failure(error));
  }
  byId('exact-state').textContent = '';
}

function exactParts({ rope, decades, ways, advice, sampling }) {
  const ends = decades.map(decade => decade.last);
  const lines = ways.map((way, series) =>
    ({ name: way.way, series, dashed: series % 2 === 1, x: ends, y: way.cos_sin }));
  const heads = ['positions', ...ways.map(way => way.way)];
  const rows = decades.map((decade, i) => [`${grouped(decade.first)} to ${grouped(decade.last)}`,
    ...ways.map(way => rounded(way.cos_sin[i], 3))]);
  const chart = lineChart(byId('exact-answer').clientWidth, {
    label: `The largest error of cos and sin by position, of ${ways.length} ways; the table below has the numbers`,
    x: { label: 'position', log: true }, y: { label: 'largest error', log: true }, lines,
    marks: rope.context ? [{ x: rope.context, name: `context ${grouped(rope.context)}`, series: 0 }] : [] });
  const pairs = rope.inv_freq.length;
  return [
    element('p', {}, `Rope ${rope.index}: base ${whole(rope.base)}, scaling ${rope.scaling}, ${pairs} pairs.`),
    figure('The largest error of cos and sin', chart, legend(lines)),
    scrolling('errors', table('The largest error of cos and sin by position', heads, rows, heads.slice(1))),
    element('p', {}, advice),
    element('h3', {}, 'The ways'),
    bullets(ways.map(way => [element('strong', {}, way.way), ': ' + way.meaning])),
    quiet(sampling)];
}
