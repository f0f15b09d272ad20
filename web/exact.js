// Panel 5, how exact: the errors of the common ways to compute cos and sin, by the size of the position.

addPanel('exact', async () => {
  byId('exact-answer').replaceChildren(element('p', { role: 'status' }, 'measuring: some seconds'));
  const { word, files } = await chosenModel(), { words } = await ropeChosen();
  const { rope, decades, ways, advice, sampling } = await askOnce(['accuracy', word, ...words], files);
  const lines = ways.map(({ way, cos_sin: y }, series) =>
    ({ name: way, series, dashed: series % 2 === 1, x: decades.map(decade => decade.last), y }));
  const heads = ['positions', ...ways.map(({ way }) => way)];
  const rows = decades.map((decade, i) => [`${grouped(decade.first)} to ${grouped(decade.last)}`,
    ...ways.map(way => rounded(way.cos_sin[i], 3))]);
  return [
    element('p', {}, `Rope ${rope.index}: base ${whole(rope.base)}, scaling ${rope.scaling}, ` +
      `${rope.inv_freq.length} pairs.`),
    picture({ label: 'The largest error of cos and sin by position',
      x: { label: 'position', log: true }, y: { label: 'largest error', log: true }, lines,
      marks: rope.context ? [{ x: rope.context, name: `context ${grouped(rope.context)}`, series: 0 }] : [] }),
    scrolling('errors', table('The largest error of cos and sin by position', heads, rows, heads.slice(1))),
    element('p', {}, advice),
    element('h3', {}, 'The ways'),
    bullets(ways.map(({ way, meaning }) => [element('strong', {}, way), ': ' + meaning])),
    quiet(sampling)];
});
