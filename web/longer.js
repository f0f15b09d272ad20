// Panel 3, a longer context: the plans of `rotary extend`.

const methodName = name => (name === 'default' ? 'none' : name);
let longerTrained;  // the trained length, where the slider begins

addPanel('longer', async () => {
  const { word, files } = await chosenModel(), { rope, words: named } = await ropeChosen();
  const known = rope?.trained_length || rope?.context || 32768;  // a guess where the file states no length
  const context = state.context || 4 * known, words = ['extend', word, ...named, '--length', context];
  const plan = await ask(words, files);
  const possible = plan.methods.filter(one => !one.refused).map(one => one.method);
  const method = [state.method, plan.recommended, possible[0]].find(one => possible.includes(one));
  if (!method) return [...longerSentences(plan), ...methodsTable(plan.methods)];
  const factor = state.factor ? ['--factor', state.factor] : [];
  const { methods: [chosen], files: made } =
    await ask([...words, '--scaling', method, ...factor, '--output', 'out'], files);
  showLongerControls(plan, Number(context), method, chosen);
  return longerParts(plan, chosen, new TextDecoder().decode(made['out/config.json']));
});

function showLongerControls(plan, context, method, chosen) {
  const factor = whole(chosen.factor);
  const remark = one => (one.refused ? ' (refused)' : one.method === plan.recommended ? ' (recommended)' : '');
  byId('method').replaceChildren(...plan.methods.map(one =>
    option(one.method, methodName(one.method) + remark(one), { disabled: Boolean(one.refused) })));
  showFields({ context, factor, method });
  longerTrained = plan.trained_length;
  showSlider('context', 8 * Math.log2(context / longerTrained), `${context} tokens`);
  showSlider('factor', 12 * Math.log2(chosen.factor), factor);
  byId('factor-auto').disabled = !state.factor;
}

function longerParts(plan, chosen, text) {
  const methods = plan.methods.map(one => (one.method === chosen.method ? chosen : one));
  const lines = methods.filter(one => !one.refused).map((one, series) => ({ name: methodName(one.method), series,
    dashed: one !== chosen, x: [...one.stretch.keys()], y: one.stretch }));
  const line = server => (chosen.overrides ? copyButton(`Copy the line for ${server}`, () =>
    `ROPE='${JSON.stringify(chosen.overrides)}'\n${chosen[server.toLowerCase()]}`) : '');  // which reads ROPE
  return [
    ...longerSentences(plan),
    ...plan.warnings.map(warning => quiet(warning)),
    picture({ label: 'The stretch of each pair: scaled / unscaled wavelength',
      x: { label: 'pair', whole: true }, y: { label: 'stretch', log: true }, lines }),
    ...methodsTable(methods),
    element('h3', {}, `config.json, scaling ${methodName(chosen.method)}`),
    ...chosen.warnings.map(warning => quiet(warning)),
    element('p', {}, copyButton('Copy config.json', () => text), ' ',
      downloadLink('config.json', new TextEncoder().encode(text)), ' ', line('vLLM'), ' ', line('SGLang')),
    element('pre', { id: 'new-config', ...focused('the new config.json') }, text),
    pairsTable([...['inv_freq', 'wavelength', 'stretch', 'effect'].map(name => ({ name, values: chosen[name] })),
      { name: 'turns in training', values: chosen.turns_in_training, text: one => rounded(one) },
      { name: 'turns in context', values: chosen.turns_in_context, text: one => rounded(one) }])];
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

function methodsTable(methods) {
  const heads = ['method', 'factor', 'kept', 'blended', 'stretched', 'attention factor', 'pairs at unseen angles'];
  const [refused, possible] = [true, false].map(is => methods.filter(one => Boolean(one.refused) === is));
  const rows = possible.map(({ method, factor, pairs, ...more }) => [methodName(method), factor, pairs.kept,
    pairs.blended, pairs.stretched, more.attention_factor, more.pairs_with_new_angles].map(whole));
  return [scrolling('methods', table('The methods', heads, rows, heads.slice(1))),
          ...refused.map(one => quiet(`${methodName(one.method)}: ${one.refused}`))];
}

wireSlider('context', step => Math.round(longerTrained * 2 ** (step / 8)));
wireSlider('factor', step => Number((2 ** (step / 12)).toPrecision(4)));
byId('factor-auto').onclick = () => change({ factor: '' });
