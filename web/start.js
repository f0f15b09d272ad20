// The start: the address is read, files can be dropped, and the panel is shown again at another width.

Object.assign(defaults, { model: builtIn[0].name, beside: '', rope: '', words: '', chapter: '1', ...firstFigure });

for (const name of ['submit', 'dragover', 'drop']) document.addEventListener(name, event => event.preventDefault());
document.addEventListener('change', ({ target }) => {
  if (target.dataset.state) change({ [target.dataset.state]: target.value.trim() });
});
document.addEventListener('drop', ({ dataTransfer }) => {
  const files = [...dataTransfer.files];
  const tensors = files.filter(file => /\.(safetensors|npy)$/.test(file.name));
  if (state.panel === 'line') keepOpened(files);
  else if (tensors.length > 0) takeTensors(tensors);
  else files.slice(0, 2).forEach((file, i) => takeFile(['model', 'beside'][i], file));
});

let shownWidth = innerWidth;
window.onresize = () => {
  if (shownWidth !== innerWidth) showPanel();
  shownWidth = innerWidth;
};

window.onhashchange = showAddress;
showAddress();
