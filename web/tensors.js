// Tensor files: what commands read and write.

// {name: {dtype, shape, bytes}} of a safetensors file.
function tensorsOf(file) {
  const view = new DataView(file.buffer, file.byteOffset, file.byteLength);
  const begin = 8 + Number(view.getBigUint64(0, true));
  const header = JSON.parse(new TextDecoder().decode(file.subarray(8, begin)));
  delete header.__metadata__;
  return Object.fromEntries(Object.entries(header).map(([name, { dtype, shape, data_offsets: [from, to] }]) =>
    [name, { dtype, shape, bytes: file.subarray(begin + from, begin + to) }]));
}

// Numbers from -1 to 1 that are the same everywhere: a small generator of Lehmer.
function drawnNumbers(count, seed = 1) {
  let drawn = seed;
  return Float32Array.from({ length: count }, () => (drawn = drawn * 48271 % 2147483647) / 1073741824 - 1);
}

const floats = bytes => new Float32Array(bytes.slice().buffer);

// An .npy of float32, and the numbers of one.
function npyOf(values, shape) {
  const dimensions = shape.length === 1 ? `${shape[0]},` : shape.join(', ');
  const text = `{'descr': '<f4', 'fortran_order': False, 'shape': (${dimensions}), }`;
  const header = text.padEnd(Math.ceil((10 + text.length + 1) / 64) * 64 - 11) + '\n';
  const file = new Uint8Array(10 + header.length + 4 * values.length);
  file.set([0x93, 0x4e, 0x55, 0x4d, 0x50, 0x59, 1, 0, header.length & 255, header.length >> 8]);
  file.set(new TextEncoder().encode(header), 10);
  file.set(new Uint8Array(Float32Array.from(values).buffer), 10 + header.length);
  return file;
}
function numbersOfNpy(file) {
  return floats(file.subarray(10 + file[8] + 256 * file[9]));
}
