// Runs a WASI program under node: run_wasm.mjs PROGRAM [ARGUMENT...].
import { readFileSync } from 'node:fs';
import { WASI } from 'node:wasi';

const wasi = new WASI({ version: 'preview1', args: process.argv.slice(2), returnOnExit: true });
const module = new WebAssembly.Module(readFileSync(process.argv[2]));
process.exitCode = wasi.start(new WebAssembly.Instance(module, wasi.getImportObject?.() ?? { wasi_snapshot_preview1: wasi.wasiImport }));
