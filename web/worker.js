// The program in a worker. It is sent questions {module, words, files, port}, and answers each at its port with {text}
// while it works, then {answer}, or {broken} where the program has stopped. An answer is {status, output, error, files,
// memory}; files has what the command has written, as Uint8Array.
let ready, port;

async function start(module) {
  const files = new Map(), wasi = makeWasi(files, text => port.postMessage({ text }));
  const { exports } = await WebAssembly.instantiate(module, wasi.imports);
  wasi.bind(exports.memory);
  exports._initialize();
  return { files, wasi, exports };
}

function run({ files, wasi, exports }, words, given) {
  files.clear();
  for (const [name, data] of Object.entries(given)) files.set(name, data);
  const text = new TextEncoder().encode(['rotary', ...words].join('\0') + '\0');
  const at = exports.malloc(text.length);
  new Uint8Array(exports.memory.buffer, at, text.length).set(text);
  const status = exports.page_run(at, words.length + 1);
  const made = [...files].filter(([name, data]) => data !== given[name] && !name.endsWith('/'));
  return { status, ...wasi.output(), files: Object.fromEntries(made.map(([name, data]) => [name, data.slice()])),
    memory: exports.memory.buffer.byteLength };
}

onmessage = async ({ data }) => {
  ready ??= start(data.module);
  try {
    const instance = await ready;
    port = data.port;
    const answer = run(instance, data.words, data.files);
    port.postMessage({ answer }, Object.values(answer.files).map(file => file.buffer));
  } catch (error) {  // the program is then in no state to go on
    data.port.postMessage({ broken: String(error) });
  }
};
