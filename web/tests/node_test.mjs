// The page's program without a browser: node_test.mjs ROTARY.wasm PROGRAM. For every golden config its JSON, texts and
// errors are those of the native program, byte for byte.
import { spawnSync } from 'node:child_process';
import { readFileSync, readdirSync } from 'node:fs';
import { resolve } from 'node:path';

const root = new URL('../../', import.meta.url), folder = new URL('files/tests/golden/configs/', root);
const read = name => readFileSync(new URL(name, root), 'utf8');
const worker = 'let onmessage;' + read('web/wasi.js') + read('web/worker.js');
const { start, run } = new Function(worker + 'port = { postMessage() {} }; return { start, run };')();
const wasm = process.argv[2], program = resolve(process.argv[3]);

const instance = await start(await WebAssembly.compile(readFileSync(wasm)));
let equal = 0, failed = 0;
for (const name of readdirSync(folder)) {
  const files = { [name]: readFileSync(new URL(name, folder)) };
  const plan = ['extend', name, '--length', '1048576', '--json'];
  for (const words of [['inspect', name, '--json'], ['inspect', name, '--pairs'], plan]) {
    const wanted = spawnSync(program, words, { cwd: folder, encoding: 'utf8' }), found = run(instance, words, files);
    const same = found.status === wanted.status && found.output === wanted.stdout && found.error === wanted.stderr;
    if (same) ++equal;
    else console.log(`FAILED ${words.join(' ')}: status ${found.status} instead of ${wanted.status}; ${found.error}`);
    failed += !same;
  }
}
console.log(`${equal} answers are equal, ${failed} differ`);
console.log(failed ? '0 passed, 1 failed, 0 skipped' : '1 passed, 0 failed, 0 skipped');
process.exit(failed ? 1 : 0);
