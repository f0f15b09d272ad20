// Charts in SVG, as wide as their place: lines over linear or logarithmic axes, and clock hands.

const chartHeight = 280;
const margin = { left: 74, right: 14, top: 12, bottom: 40 };

// A function from values to pixels, with its ticks. Empty values give the range 0 to 1.
function axis(values, from, to, log) {
  const finite = values.filter(value => Number.isFinite(value) && (!log || value > 0));
  const position = log ? Math.log10 : value => value;
  if (finite.length === 0) finite.push(...(log ? [1, 10] : [0, 1]));
  let low = Math.min(...finite), high = Math.max(...finite);
  if (low === high) [low, high] = log ? [low / 2, high * 2] : [low - 0.5, high + 0.5];
  const begin = position(low), end = position(high);
  const at = value => from + (position(value) - begin) / (end - begin) * (to - from);
  return { at, low, high, ticks: log ? decades(begin, end) : steps(low, high) };
}

function decades(begin, end) {
  const every = Math.max(1, Math.ceil((end - begin) / 7)), ticks = [];
  for (let power = Math.ceil(begin - 1e-9); power <= end + 1e-9; power += every) ticks.push(10 ** power);
  return ticks.length >= 2 ? ticks : steps(10 ** begin, 10 ** end).filter(tick => tick > 0);
}

function steps(low, high) {
  const rough = (high - low) / 6, power = 10 ** Math.floor(Math.log10(rough));
  const step = power * [1, 2, 5, 10].find(factor => factor * power >= rough), ticks = [];
  for (let i = Math.ceil(low / step - 1e-9); i * step <= high + step * 1e-9; ++i) ticks.push(i * step);
  return ticks;
}

function tickText(value) {
  const size = Math.abs(value);
  if (size >= 1e6 || (size > 0 && size < 1e-3)) return value.toExponential(0).replace('e+', 'e');
  return grouped(Number(value.toPrecision(6)));
}

// lines: [{name, x, y, series, dashed, points}], series is a number for the colour, points draws marks in place of a
// line, each of its own shape: kinds of [0 (full), 1 (half), 2 (hollow)]. bands: [{x, low, high, series}]. marks:
// [{y | x, name, series}]. label describes the picture in words.
function lineChart(width, { label, x, y, lines, bands = [], marks = [] }) {
  const { left, right, top, bottom } = margin;
  const xs = [...lines.flatMap(line => line.x), ...marks.flatMap(mark => mark.x ?? [])];
  const across = axis(xs, left, width - right, x.log);
  const every = [...lines.flatMap(line => line.y), ...bands.flatMap(band => [...band.low, ...band.high]),
                 ...marks.flatMap(mark => mark.y ?? [])];
  const up = axis(every, chartHeight - bottom, top, y.log);
  const svg = drawn('svg', { viewBox: `0 0 ${width} ${chartHeight}`, width, height: chartHeight, role: 'img',
    'aria-label': label });
  for (const tick of across.ticks) {
    svg.append(drawn('path', { class: 'grid', d: `M${across.at(tick)} ${top}V${chartHeight - bottom}` }),
      drawn('text', { x: across.at(tick), y: chartHeight - bottom + 16, 'text-anchor': 'middle' }, tickText(tick)));
  }
  for (const tick of up.ticks) {
    svg.append(drawn('path', { class: 'grid', d: `M${left} ${up.at(tick)}H${width - right}` }),
      drawn('text', { x: left - 6, y: up.at(tick) + 4, 'text-anchor': 'end' }, tickText(tick)));
  }
  const turned = `translate(12 ${(chartHeight - bottom + top) / 2}) rotate(-90)`;
  svg.append(drawn('text', { x: (left + width - right) / 2, y: chartHeight - 6, 'text-anchor': 'middle' }, x.label),
    drawn('text', { transform: turned, 'text-anchor': 'middle' }, y.label));
  for (const band of bands)
    svg.append(drawn('path', { class: `band series-${band.series}`, d: bandPath(band, across, up) }));
  for (const mark of marks) svg.append(...markNodes(mark, across, up, width));
  for (const line of lines) {
    if (line.points) svg.append(...pointNodes(line, across, up));
    else svg.append(drawn('path', { class: `line series-${line.series}`, d: linePath(line, across, up),
                                    'stroke-dasharray': line.dashed ? '6 4' : null }));
  }
  return svg;
}

const place = (across, up, x, y) => `${across.at(x).toFixed(1)} ${up.at(y).toFixed(1)}`;
function linePath(line, across, up) {
  let path = '', drawing = false;
  line.x.forEach((x, i) => {
    const is = line.y[i] !== null && Number.isFinite(up.at(line.y[i]));
    if (is) path += (drawing ? 'L' : 'M') + place(across, up, x, line.y[i]);
    drawing = is;
  });
  return path;
}
function bandPath({ x, low, high }, across, up) {
  const edge = values => x.map((at, i) => place(across, up, at, values[i])), forth = edge(high), back = edge(low);
  return x.length ? 'M' + [...forth, ...back.reverse()].join('L') + 'Z' : '';
}
function pointNodes(line, across, up) {
  return line.x.flatMap((x, i) => {
    if (line.y[i] === null) return [];
    return [drawn('circle', { class: `point kind-${line.points[i]} series-${line.series}`, r: 3.2,
                              cx: across.at(x).toFixed(1), cy: up.at(line.y[i]).toFixed(1) })];
  });
}
function markNodes(mark, across, up, width) {
  const { left, right, top, bottom } = margin;
  if (mark.x !== undefined) {
    const at = across.at(mark.x), ends = at > width - 120;
    return [drawn('path', { class: `mark series-${mark.series}`, d: `M${at} ${top}V${chartHeight - bottom}` }),
            drawn('text', { x: at + (ends ? -4 : 4), y: top + 10, 'text-anchor': ends ? 'end' : 'start' }, mark.name)];
  }
  return [drawn('path', { class: `mark series-${mark.series}`, d: `M${left} ${up.at(mark.y)}H${width - right}` }),
          drawn('text', { x: left + 6, y: up.at(mark.y) - 4 }, mark.name)];
}

// The keys of a chart: [{name, series, dashed, kind}].
function legend(entries) {
  const stroke = ({ series, dashed }) =>
    drawn('path', { class: `line series-${series}`, d: 'M1 6H25', 'stroke-dasharray': dashed ? '6 4' : null });
  const point = ({ series, kind }) =>
    drawn('circle', { class: `point kind-${kind} series-${series}`, cx: 13, cy: 6, r: 4 });
  const sample = entry => drawn('svg', { width: 26, height: 12, 'aria-hidden': 'true' },
    entry.kind === undefined ? stroke(entry) : point(entry));
  return element('ul', { class: 'legend' }, ...entries.map(entry => element('li', {}, sample(entry), ' ', entry.name)));
}

// A clock for each pair, with a hand for the key and one for the query; chosen(pair) is called by a click.
class Clocks {
  constructor(place, chosen) {
    this.place = place;
    this.chosen = chosen;
    this.clocks = [];
    place.addEventListener('keydown', event => {  // one clock takes the focus, and arrows lead to the others
      const at = this.clocks.findIndex(one => one.button === event.target);
      const next = at + { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      this.clocks[next]?.button.focus();
      if (this.clocks[next]) chosen(next);
    });
  }
  // hands: [{cos, sin}, ...], one for each hand, of equal lengths. picked: the number of the pair that is shown large.
  show(hands, picked) {
    const pairs = hands[0].cos.length;
    if (this.clocks.length !== pairs) this.#build(pairs, hands.length);
    this.clocks.forEach(({ button, lines }, pair) => {
      button.setAttribute('aria-pressed', String(pair === picked));
      button.tabIndex = pair === picked ? 0 : -1;
      lines.forEach((line, i) => {
        const cos = hands[i].cos[pair], sin = hands[i].sin[pair];
        const length = Math.hypot(cos, sin) || 1;  // the attention factor, which is in both
        line.setAttribute('x2', (20 + 17 * cos / length).toFixed(2));
        line.setAttribute('y2', (20 - 17 * sin / length).toFixed(2));
      });
    });
  }
  #build(pairs, hands) {
    this.clocks = Array.from({ length: pairs }, (_, pair) => {
      const lines = Array.from({ length: hands }, (_, i) => drawn('line', { class: `hand-${i}`, x1: 20, y1: 20 }));
      const face = drawn('circle', { class: 'face', cx: 20, cy: 20, r: 18 });
      const chosen = () => this.chosen(pair);
      const button = element('button', { type: 'button', 'aria-label': `pair ${pair}`, onclick: chosen },
        drawn('svg', { viewBox: '0 0 40 40', 'aria-hidden': 'true' }, face, ...lines), String(pair));
      return { button, lines };
    });
    this.place.className = pairs <= 8 ? 'few' : '';
    this.place.replaceChildren(...this.clocks.map(clock => clock.button));
  }
}
