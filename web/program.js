// The program: run(words, files) for the panels, window.rotary for scripts and tests.

// The WebAssembly module inside the page. Each character of the text holds seven bits of the gzip file (web/join.py).
function compileProgram() {
  const text = byId('program').textContent;
  const packed = new Uint8Array(Math.floor(text.length * 7 / 8));
  let held = 0, bits = 0, done = 0;
  for (let i = 0; i < text.length; ++i) {
    held = (held << 7 | text.charCodeAt(i) & 127) & 0x7fff;
    bits += 7;
    if (bits >= 8) packed[done++] = held >> (bits -= 8);
  }
  const plain = new Blob([packed]).stream().pipeThrough(new DecompressionStream('gzip'));
  return WebAssembly.compileStreaming(new Response(plain, { headers: { 'Content-Type': 'application/wasm' } }));
}
const compiled = compileProgram();
const workerAddress = URL.createObjectURL(new Blob([byId('worker').textContent], { type: 'text/javascript' }));

// A worker with an instance of the program, which answers one question after the other.
function startInstance() {
  const worker = new Worker(workerAddress), { promise: ended, reject: end } = Promise.withResolvers();
  ended.catch(() => worker.terminate());
  const run = async (words, files, told) => {
    const { port1, port2 } = new MessageChannel();
    worker.postMessage({ module: await compiled, words, files, port: port2 }, [port2]);
    const answered = new Promise((resolve, reject) => {
      port1.onmessage = ({ data: { text, broken, answer } }) =>
        (text ? told(text) : broken ? reject(new Error(broken)) : resolve(answer));
    });
    return Promise.race([answered, ended]).finally(() => port1.close());
  };
  return { run, end };
}

const heavyCommands = ['accuracy', 'check', 'convert', 'diagnose'];
const sharedMemoryLimit = 128 << 20;  // an instance never gives memory back
let shared = startInstance();

// Runs one command. words: as in ["inspect", "config.json", "--json"]; files: names to strings, Uint8Arrays or Files.
// signal: an AbortSignal that stops it; told: called with text on standard error as it comes. A command that may take
// long or much runs in an instance of its own, whose memory is given back.
async function run(words, files = {}, { signal, told = () => {} } = {}) {
  signal?.throwIfAborted();
  const encoder = new TextEncoder(), alone = signal || heavyCommands.includes(words[0]);
  const instance = alone ? startInstance() : shared;
  const given = Object.fromEntries(Object.entries(files).map(([name, data]) =>
    [name.replace(/^(\.?\/)+/, ''), typeof data === 'string' ? encoder.encode(data) : data]));
  signal?.addEventListener('abort', () => instance.end(signal.reason));
  let over = true;  // the instance is then of no more use
  try {
    const { memory, ...answer } = await instance.run(words.map(String), given, told);
    over = alone || memory > sharedMemoryLimit;
    return answer;
  } finally {
    if (over && instance === shared) shared = startInstance();
    if (over) instance.end(new Error('the program was started anew'));
  }
}

// The program's answer as an object. Throws its sentence, with `code` and `status`.
async function ask(words, files, options) {
  const { output, error, status, files: made } = await run([...words, '--json'], files, options);
  if (output !== '') return { ...JSON.parse(output), status, files: made };
  const line = error.split('\n').find(one => one.startsWith('{"version"'));
  const { code, message } = line ? JSON.parse(line).error : { code: '', message: error.trim() };
  throw Object.assign(new Error(message), { code, status });
}

// As ask, of a command without output files that panels ask again at each change: its last answers are kept.
function askOnce(words, files) {
  const contents = Object.values(files).map(data => (data instanceof File ? [data.size, data.lastModified] : data));
  const key = JSON.stringify([words, contents]);
  if (!answers.has(key)) answers.set(key, ask(words, files));
  if (answers.size > 30) answers.delete(answers.keys().next().value);
  answers.get(key).catch(() => answers.delete(key));
  return answers.get(key);
}
const answers = new Map();

window.rotary = (words, files) => run(words, files);
