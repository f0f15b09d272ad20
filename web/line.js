// Panel 6, the command line: any rotary command, over the built-in models and the files that were opened.

const openFiles = new Map();  // name: File or Uint8Array, of the files that were opened or that commands have written
const earlier = { lines: [], at: 0 };

panels.set('line', () => {
  byId('words').value = state.words;
  for (const link of document.querySelectorAll('[data-words]')) link.href = addressOf({ words: link.dataset.words });
  if (state.words && state.words !== earlier.lines.at(-1)) runLine(state.words);
});

// The words of a line: at spaces, but for those in quotes.
function splitWords(line) {
  const quoted = line.match(/(?:[^\s"']|"[^"]*"|'[^']*')+/g) ?? [];
  const words = quoted.map(word => word.replace(/"([^"]*)"|'([^']*)'/g, '$1$2'));
  return words[0] === 'rotary' ? words.slice(1) : words;
}

const runLine = newest(async line => {
  const began = performance.now(), words = splitWords(line), answer = byId('line-answer'), said = byId('line-state');
  earlier.at = earlier.lines.push(line);
  said.textContent = 'running';
  try {
    const chosen = state.model.startsWith('file:') ? {} : (await chosenModel()).files;
    const files = { ...Object.fromEntries(builtIn.map(({ name, text }) => [name + '.json', text])), ...chosen,
      ...Object.fromEntries(openFiles) };
    const { status, output, error, files: made } = await run(words, files);
    keepFiles(Object.entries(made));
    answer.replaceChildren(
      error && element('pre', { class: 'failure', ...focused('standard error') }, error),
      output && element('pre', focused('standard output'), output));
    said.textContent = `exit status ${status}, ${Math.round(performance.now() - began)} ms`;
  } catch (error) {
    answer.replaceChildren(failure(error));
    said.textContent = '';
  }
});

// Keeps files, [name, data] of each, for the commands to come, and lists all that are kept.
function keepFiles(files) {
  for (const [name, data] of files) openFiles.set(name, data);
  const shown = ([name, data]) => (data instanceof File ? `${name}, opened` : downloadLink(name, data));
  const items = [...openFiles].map(one => element('li', {}, shown(one)));
  byId('line-made').replaceChildren(...(items.length ? items : [element('li', { class: 'quiet' }, 'none yet')]));
}

byId('line-form').onsubmit = () => {
  const words = byId('words').value.trim();
  if (words === state.words) runLine(words);
  else change({ words });
};
byId('words').onkeydown = event => {
  const step = { ArrowUp: -1, ArrowDown: 1 }[event.key];
  if (!step || earlier.lines.length === 0) return;
  earlier.at = Math.min(Math.max(earlier.at + step, 0), earlier.lines.length - 1);
  event.target.value = earlier.lines[earlier.at];
  event.preventDefault();
};
const keepOpened = files => keepFiles(files.map(file => [file.name, file]));
byId('line-files').onchange = event => keepOpened([...event.target.files]);
