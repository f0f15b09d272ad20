// The program in a worker. It is sent {module} first, then questions {id, words, files}, and answers each with
// {id, told} while it works, then {id, answer}, or {id, broken} where the program has stopped. An answer is {status,
// output, error, files, memory}; files has what the command has written, as Uint8Array.
let ready, asked;

async function start(module) {
  const files = new Map(), wasi = makeWasi(files, text => postMessage({ id: asked, told: text }));
  const { exports } = await WebAssembly.instantiate(module, wasi.imports);
  wasi.bind(exports.memory);
  exports._initialize();
  return { files, wasi, exports };
}

function run({ files, wasi, exports }, words, given) {
  files.clear();
  for (const [name, data] of Object.entries(given)) files.set(name, data);
  const text = new TextEncoder().encode(['rotary', ...words].join('\0') + '\0');
  const at = exports.page_alloc(text.length);
  new Uint8Array(exports.memory.buffer, at, text.length).set(text);
  const status = exports.page_run(at, words.length + 1);
  const made = [...files].filter(([name, data]) => data !== given[name]).map(([name, data]) => [name, data.slice()]);
  return { status, ...wasi.output(), files: Object.fromEntries(made), memory: exports.memory.buffer.byteLength };
}

onmessage = async ({ data }) => {
  if (data.module) {
    ready = start(data.module);
    return;
  }
  asked = data.id;
  try {
    const answer = run(await ready, data.words, data.files);
    postMessage({ id: data.id, answer }, Object.values(answer.files).map(file => file.buffer));
  } catch (error) {  // the program is then in no state to go on
    postMessage({ id: data.id, broken: String(error) });
  }
};
