// Panel 3, a longer context: the plans of `rotary extend`.

panels.set('longer', { show: newest(showLonger) });

const contextOfStep = (trained, step) => Math.round(trained * 2 ** (step / 8));
const methodName = name => (name === 'default' ? 'none' : name);
const factorOfStep = step => Number((2 ** (step / 12)).toPrecision(4));

async function showLonger() {
  showModelSelects();
  try {
    const model = await chosenModel(), trained = await trainedLength(model);
    const context = Number(state.context || 4 * trained);
    const plan = await ask(['extend', model.word, '--length', String(context)], model.files);
    const possible = plan.methods.filter(one => !one.refused).map(one => one.method);
    const method = [state.method, plan.recommended, possible[0]].find(one => possible.includes(one));
    if (!method) {
      byId('longer-answer').replaceChildren(...longerSentences(plan), scrolling('methods', methodsTable(plan, {})));
      return;
    }
    const factor = state.factor ? ['--factor', state.factor] : [];
    const words = ['extend', model.word, '--length', context, '--scaling', method, ...factor, '--output', 'out'];
    const { methods: [chosen], files } = await ask(words, model.files);
    showLongerControls(plan, context, method, chosen);
    const text = new TextDecoder().decode(files['out/config.json']);
    byId('longer-answer').replaceChildren(...longerParts(plan, chosen, text));
  } catch (error) {
    byId('longer-answer').replaceChildren(failure(error));
  }
}

async function trainedLength({ word, files }) {
  const { ropes } = await ask(['inspect', word], files);
  return ropes[0]?.trained_length || ropes[0]?.context || 32768;  // a guess where the file states no length
}

function showLongerControls(plan, context, method, chosen) {
  const set = (id, value) => { if (document.activeElement !== byId(id)) byId(id).value = value; };
  set('context', context);
  set('factor', whole(chosen.factor));
  set('context-slider', Math.round(8 * Math.log2(context / plan.trained_length)));
  set('factor-slider', Math.round(12 * Math.log2(chosen.factor)));
  byId('context-slider').setAttribute('aria-valuetext', `${context} tokens`);
  byId('factor-slider').setAttribute('aria-valuetext', whole(chosen.factor));
  byId('context-slider').oninput = event =>
    change({ context: String(contextOfStep(plan.trained_length, Number(event.target.value))) });
  byId('factor-auto').disabled = !state.factor;
  const remark = one => (one.refused ? ' (refused)' : one.method === plan.recommended ? ' (recommended)' : '');
  byId('method').replaceChildren(...plan.methods.map(one =>
    element('option', { value: one.method, disabled: Boolean(one.refused) }, methodName(one.method) + remark(one))));
  byId('method').value = method;
}

function longerParts(plan, chosen, text) {
  const possible = plan.methods.filter(one => !one.refused).map(one => (one.method === chosen.method ? chosen : one));
  const lines = possible.map((one, series) => ({ name: methodName(one.method), series, dashed: one !== chosen,
    x: one.stretch.map((_, pair) => pair), y: one.stretch }));
  const chart = lineChart(byId('longer-answer').clientWidth, {
    label: `How far each method stretches each of ${chosen.stretch.length} pairs`,
    x: { label: 'pair' }, y: { label: 'stretch', log: true }, lines });
  const line = chosen.overrides ? [copyButton('Copy the line for vLLM', () => served(chosen, chosen.vllm)), ' ',
    copyButton('Copy the line for SGLang', () => served(chosen, chosen.sglang))] : [];
  return [
    ...longerSentences(plan),
    ...plan.warnings.map(warning => quiet(warning)),
    figure('The stretch of each pair: scaled / unscaled wavelength', chart, legend(lines)),
    scrolling('methods', methodsTable(plan, chosen)),
    element('h3', {}, `config.json, scaling ${methodName(chosen.method)}`),
    ...chosen.warnings.map(warning => quiet(warning)),
    element('p', {}, copyButton('Copy config.json', () => text), ' ',
      downloadLink('config.json', new TextEncoder().encode(text)), ' ', ...line),
    element('pre', { class: 'text', id: 'new-config', ...focused('the new config.json') }, text),
    folded('The pairs as a table', longerPairs(chosen))];
}

function longerSentences(plan) {
  const { context, trained_length: trained, kv_cache_bytes: cache, recommended, family_publishes: published } = plan;
  const said = [
    [`Trained on ${grouped(trained)} tokens (${plan.trained_length_from}); ${grouped(context)} are `,
     `${rounded(plan.smallest_factor)} times as many.`,
     cache ? ` The KV cache of one such sequence is ${rounded(cache / 2 ** 30)} GiB (${plan.kv_cache_assumes}).` : ''],
    [element('strong', {}, recommended ? `Recommended: ${methodName(recommended)}` : 'None of these is recommended'),
     plan.why ? `: ${plan.why}.` : '.', plan.otherwise ? ` ${plan.otherwise}` : '']];
  if (published) {
    said.push([`${published.publisher} publishes ${published.method}, factor ${whole(published.factor)}, for `,
               `${published.models} (${published.source}). ${published.caution ?? ''}`]);
  }
  return said.map(parts => element('p', {}, ...parts));
}

// The line of a server, with the variable ROPE that it names set before it.
const served = (chosen, line) => `ROPE='${JSON.stringify(chosen.overrides)}'\n${line}`;

function methodsTable(plan, chosen) {
  const heads = ['method', 'factor', 'kept', 'blended', 'stretched', 'attention factor', 'pairs at unseen angles'];
  const rows = plan.methods.map(given => {
    const one = given.method === chosen.method ? chosen : given, name = methodName(one.method);
    if (one.refused) return [name, element('span', { class: 'quiet' }, 'refused: ' + one.refused)];
    return [name, whole(one.factor), whole(one.pairs.kept), whole(one.pairs.blended), whole(one.pairs.stretched),
            whole(one.attention_factor), whole(one.pairs_with_new_angles)];
  });
  const made = table('The methods', heads, rows, heads.slice(1));
  for (const row of made.querySelectorAll('tbody tr')) {
    if (row.children.length === 2) Object.assign(row.children[1], { colSpan: heads.length - 1, className: '' });
  }
  return made;
}

function longerPairs(chosen) {
  const heads = ['pair', 'inv_freq', 'wavelength', 'stretch', 'effect', 'turns in training', 'turns in context'];
  const rows = chosen.inv_freq.map((value, pair) => [String(pair), whole(value), whole(chosen.wavelength[pair]),
    whole(chosen.stretch[pair]), chosen.effect[pair], rounded(chosen.turns_in_training[pair]),
    rounded(chosen.turns_in_context[pair])]);
  return table('The pairs', heads, rows, heads.filter(head => head !== 'effect'));
}

byId('factor-slider').oninput = event => change({ factor: String(factorOfStep(Number(event.target.value))) });
byId('factor-auto').onclick = () => change({ factor: '' });
