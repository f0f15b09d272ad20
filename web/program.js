// The program: run(words, files) for the panels, window.rotary for scripts and tests.

// The WebAssembly module inside the page. Each character of the text holds seven bits of the gzip file (web/join.py).
function compileProgram() {
  const text = document.getElementById('program').textContent;
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
const workerAddress = URL.createObjectURL(
  new Blob([document.getElementById('worker').textContent], { type: 'text/javascript' }));

// A worker with an instance of the program, which answers one question after the other.
class Instance {
  #worker = new Worker(workerAddress);
  #waiting = new Map();
  #asked = 0;

  constructor() {
    compiled.then(module => this.#worker.postMessage({ module }));
    this.#worker.onmessage = ({ data }) => {
      const { resolve, reject, told } = this.#waiting.get(data.id);
      if (data.told !== undefined) return told(data.told);
      this.#waiting.delete(data.id);
      if (data.broken) reject(new Error(data.broken));
      else resolve(data.answer);
    };
  }
  async run(words, files, told) {
    await compiled;  // the module is sent first
    return new Promise((resolve, reject) => {
      this.#waiting.set(++this.#asked, { resolve, reject, told });
      this.#worker.postMessage({ id: this.#asked, words, files });
    });
  }
  end(reason) {
    this.#worker.terminate();
    for (const { reject } of this.#waiting.values()) reject(reason);
  }
}

const sharedMemoryLimit = 128 << 20;  // an instance never gives memory back
let shared = new Instance();

// Runs one command. words: as in ["inspect", "config.json", "--json"]; files: names to strings, Uint8Arrays or Files.
// alone: in an instance of its own, whose memory is given back; signal: an AbortSignal that stops it, for `alone`;
// told: called with text on standard error as it comes.
async function run(words, files = {}, { alone = false, signal, told = () => {} } = {}) {
  const encoder = new TextEncoder();
  const given = Object.fromEntries(Object.entries(files).map(([name, data]) =>
    [name.replace(/^(\.?\/)+/, ''), typeof data === 'string' ? encoder.encode(data) : data]));
  const instance = alone ? new Instance() : shared;
  signal?.addEventListener('abort', () => instance.end(signal.reason));
  try {
    const answer = await instance.run(words.map(String), given, told);
    if (!alone && answer.memory > sharedMemoryLimit) replaceShared(instance);
    return answer;
  } catch (error) {
    if (!alone) replaceShared(instance);
    throw error;
  } finally {
    if (alone) instance.end(new Error('the command has ended'));
  }
}

function replaceShared(instance) {
  if (shared !== instance) return;
  shared = new Instance();
  instance.end(new Error('the program was started anew'));
}

// The program's answer as an object. Throws its sentence, with `code` and `status`.
async function ask(words, files, options) {
  const answer = await run([...words, '--json'], files, options);
  if (answer.output !== '') return { ...JSON.parse(answer.output), status: answer.status, files: answer.files };
  throw programError(answer);
}

function programError({ error, status }) {
  const line = error.split('\n').find(one => one.startsWith('{"version"'));
  const { code, message } = line ? JSON.parse(line).error : { code: '', message: error.trim() };
  return Object.assign(new Error(message), { code, status });
}

const heavyCommands = ['accuracy', 'check', 'convert', 'diagnose'];
window.rotary = async (words, files = {}) => {
  const size = Object.values(files).reduce((sum, data) => sum + (data.size ?? data.length), 0);
  const alone = heavyCommands.includes(words[0]) || size > 8 << 20;
  const { status, output, error, files: made } = await run(words, files, { alone });
  return { status, output, error, files: made };
};
