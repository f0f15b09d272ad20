// Charts in SVG, as wide as their place: lines, or a map of cells, over linear or logarithmic axes, and their keys.

const margin = { left: 74, right: 14, top: 12, bottom: 40 };

// A function from values to pixels, with its ticks, each with `room` pixels. Empty values give the range 0 to 1.
function axis(values, from, to, { log, whole }, room) {
  const finite = values.filter(value => Number.isFinite(value) && (!log || value > 0));
  const position = log ? Math.log10 : value => value;
  if (finite.length === 0) finite.push(...(log ? [1, 10] : [0, 1]));
  let low = Math.min(...finite), high = Math.max(...finite);
  if (low === high) [low, high] = log ? [low / 2, high * 2] : [low - 0.5, high + 0.5];
  const begin = position(low), end = position(high), parts = Math.min(7, Math.abs(to - from) / room);
  const at = value => from + (position(value) - begin) / (end - begin) * (to - from);
  return { at, ticks: log ? decades(begin, end, parts) : steps(low, high, parts, whole ? 1 : 0) };
}

function decades(begin, end, parts) {
  const every = Math.max(1, Math.ceil((end - begin) / parts)), ticks = [];
  for (let power = Math.ceil(begin - 1e-9); power <= end + 1e-9; power += every) ticks.push(10 ** power);
  return ticks.length >= 2 ? ticks : steps(10 ** begin, 10 ** end, parts, 0).filter(tick => tick > 0);
}

function steps(low, high, parts, least) {
  const rough = Math.max((high - low) / parts, least), power = 10 ** Math.floor(Math.log10(rough));
  const step = power * [1, 2, 5, 10].find(factor => factor * power >= rough), ticks = [];
  for (let i = Math.ceil(low / step - 1e-9); i * step <= high + step * 1e-9; ++i) ticks.push(i * step);
  return ticks;
}

const tickText = value => grouped(rounded(value, value >= 1e6 || Math.abs(value) < 1e-3 ? 1 : 6));

// A chart as wide as the answer of the panel that is shown. label describes it in words; x and y: {label, log, whole}.
//   lines: [{name, x, y, series, dashed, points}], series is a number for the colour, points draws marks in place of a
//     line, each of its own shape: kinds of [0 (full), 1 (half), 2 (hollow)]
//   bands: [{x, low, high, series}]; marks: [{y | x, name, series}], lines through the whole chart, some with a name
//   map: {x, y, canvas, square}, a picture from x[0] to x[1] and, downwards, from y[0] to y[1] (mapOf)
function drawChart({ label, x, y, lines = [], bands = [], marks = [], map }) {
  const room = byId(state.panel + '-answer').clientWidth, width = map?.square ? Math.min(room, 420) : room;
  const { left, top } = margin, right = width - margin.right, bottom = map?.square ? top + right - left : 240;
  const parts = [...lines, ...marks, ...(map ? [map] : [])], height = bottom + margin.bottom;
  const across = axis(parts.flatMap(one => one.x ?? []), left, right, x, 60);
  const up = axis([...parts.flatMap(one => one.y ?? []), ...bands.flatMap(({ low, high }) => [...low, ...high])],
    map ? top : bottom, map ? bottom : top, y, 32);
  const svg = element('svg', { viewBox: `0 0 ${width} ${height}`, width, height, role: 'img', 'aria-label': label });
  const text = (at, anchor, said) => svg.append(element('text', { ...at, 'text-anchor': anchor }, said));
  const path = (kind, d, more) => svg.append(element('path', { class: kind, d, ...more }));
  const upright = value => `M${across.at(value)} ${top}V${bottom}`;
  const level = value => `M${left} ${up.at(value)}H${right}`;
  const point = (x, y) => `${across.at(x).toFixed(1)} ${up.at(y).toFixed(1)}`;
  for (const tick of across.ticks) {
    path('grid', upright(tick));
    text({ x: across.at(tick), y: bottom + 16 }, 'middle', tickText(tick));
  }
  for (const tick of up.ticks) {
    path('grid', level(tick));
    text({ x: left - 6, y: up.at(tick) + 4 }, 'end', tickText(tick));
  }
  text({ x: (left + right) / 2, y: height - 6 }, 'middle', x.label);
  text({ transform: `translate(12 ${(bottom + top) / 2}) rotate(-90)` }, 'middle', y.label);
  const place = { x: left, y: top, width: right - left, height: bottom - top };
  if (map) svg.append(element('foreignObject', place, map.canvas));
  for (const { x, low, high, series } of bands) {
    const edge = values => x.map((at, i) => point(at, values[i]));
    path(`band series-${series}`, 'M' + [...edge(high), ...edge(low).reverse()].join('L') + 'Z');
  }
  for (const mark of marks) {
    path(`mark series-${mark.series}`, mark.x === undefined ? level(mark.y) : upright(mark.x));
    const at = across.at(mark.x), ends = at > width - 120;  // the words stand where there is room
    if (mark.x === undefined) text({ x: left + 6, y: up.at(mark.y) - 4 }, 'start', mark.name);
    else text({ x: at + (ends ? -4 : 4), y: top + 10 }, ends ? 'end' : 'start', mark.name);
  }
  for (const { x, y, series, dashed, points } of lines) {
    const known = x.map((_, i) => i).filter(i => y[i] !== null && Number.isFinite(up.at(y[i])));
    const go = i => (known.includes(i - 1) ? 'L' : 'M') + point(x[i], y[i]);
    if (!points) path(`line series-${series}`, known.map(go).join(''), { 'stroke-dasharray': dashed ? '6 4' : null });
    else svg.append(...known.map(i => element('circle', { class: `point kind-${points[i]} series-${series}`, r: 3.2,
      cx: across.at(x[i]).toFixed(1), cy: up.at(y[i]).toFixed(1) })));
  }
  return svg;
}

// A map of values in rows, from the cell (left, top) on: blue above 0, orange below, and the stronger, the farther off.
function mapOf(columns, values, left = 0, top = 0) {
  const canvas = element('canvas', { class: 'cells', width: columns, height: values.length / columns });
  const context = canvas.getContext('2d'), image = context.createImageData(canvas.width, canvas.height);
  const most = values.reduce((one, value) => Math.max(one, Math.abs(value)), 0) || 1;
  values.forEach((value, i) =>
    image.data.set([...(value < 0 ? [214, 100, 20] : [40, 125, 205]), 255 * Math.abs(value) / most], 4 * i));
  context.putImageData(image, 0, 0);
  return { x: [left - 0.5, left + columns - 0.5], y: [top - 0.5, top + canvas.height - 0.5], canvas };
}

// A chart below its label, with its keys: [{name, series, dashed, kind}].
const picture = (chart, keys = chart.lines) => element('figure', {}, element('figcaption', {}, chart.label),
  drawChart(chart), legend(keys));

function legend(keys) {
  const sample = ({ series, dashed, kind }) => (kind === undefined
    ? element('path', { class: `line series-${series}`, d: 'M1 6H25', 'stroke-dasharray': dashed ? '6 4' : null })
    : element('circle', { class: `point kind-${kind} series-${series}`, cx: 13, cy: 6, r: 4 }));
  return element('ul', { class: 'legend' }, ...keys.map(key => element('li', {},
    element('svg', { width: 26, height: 12, 'aria-hidden': 'true' }, sample(key)), ' ', key.name)));
}
