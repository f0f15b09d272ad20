// Panel 6, the command line: any rotary command, over the built-in models and the files that were opened.

const lineFiles = new Map();  // name: File or Uint8Array, of the files opened here and those that commands have written
const history_ = { lines: [], at: 0 };

panels.set('line', { show: showLine });

function showLine() {
  byId('words').value = state.words ?? '';
  for (const link of document.querySelectorAll('[data-words]'))
    link.setAttribute('href', addressOf({ words: link.dataset.words }));
  if (state.words && state.words !== history_.lines.at(-1)) runLine(state.words);
}

// The words of a line: at spaces, but for those in quotes.
function splitWords(line) {
  const quoted = line.match(/(?:[^\s"']|"[^"]*"|'[^']*')+/g) ?? [];
  const words = quoted.map(word => word.replace(/"([^"]*)"|'([^']*)'/g, '$1$2'));
  return words[0] === 'rotary' ? words.slice(1) : words;
}

const runLine = newest(async line => {
  history_.lines.push(line);
  history_.at = history_.lines.length;
  byId('line-state').textContent = 'running';
  const began = performance.now(), words = splitWords(line);
  try {
    const files = Object.fromEntries([...builtIn.map(({ name, text }) => [name + '.json', text]), ...lineFiles]);
    if (!state.model.startsWith('file:')) Object.assign(files, (await chosenModel()).files);
    const answer = await run(words, files, { alone: heavyCommands.includes(words[0]) });
    for (const [name, data] of Object.entries(answer.files)) lineFiles.set(name, data);
    byId('line-answer').replaceChildren(
      answer.error && element('pre', { class: 'errors', ...focused('standard error') }, answer.error),
      answer.output && element('pre', focused('standard output'), answer.output));
    byId('line-state').textContent = `exit status ${answer.status}, ${Math.round(performance.now() - began)} ms`;
  } catch (error) {
    byId('line-answer').replaceChildren(failure(error));
    byId('line-state').textContent = '';
  }
  showLineFiles();
});

function showLineFiles() {
  const shown = ([name, data]) => (data instanceof File ? `${name}, opened` : downloadLink(name, data));
  byId('line-made').replaceChildren(...[...lineFiles].map(one => element('li', {}, shown(one))));
  if (lineFiles.size === 0) byId('line-made').append(element('li', { class: 'quiet' }, 'none yet'));
}

byId('line-form').onsubmit = () => {
  const words = byId('words').value.trim();
  if (words === state.words) runLine(words);
  else change({ words });
};
byId('words').onkeydown = event => {
  const step = { ArrowUp: -1, ArrowDown: 1 }[event.key];
  if (!step || history_.lines.length === 0) return;
  history_.at = Math.min(Math.max(history_.at + step, 0), history_.lines.length - 1);
  event.target.value = history_.lines[history_.at];
  event.preventDefault();
};
function addLineFiles(files) {
  for (const file of files) lineFiles.set(file.name, file);
  showLineFiles();
}
byId('line-files').onchange = event => addLineFiles(event.target.files);
