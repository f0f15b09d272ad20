// Tensor files, which commands read and write.

// {name: {dtype, shape, bytes}} of a safetensors file.
function tensorsOf(file) {
  const view = new DataView(file.buffer, file.byteOffset, file.byteLength);
  const begin = 8 + Number(view.getBigUint64(0, true));
  const { __metadata__: _, ...header } = JSON.parse(new TextDecoder().decode(file.subarray(8, begin)));
  return Object.fromEntries(Object.entries(header).map(([name, { dtype, shape, data_offsets: [from, to] }]) =>
    [name, { dtype, shape, bytes: file.subarray(begin + from, begin + to) }]));
}

// {dtype, shape, bytes} of an .npy; without a dtype where it is another one, or in Fortran's order. The length of the
// header takes two bytes in version 1, else four.
function tensorOfNpy(file) {
  const size = new DataView(file.buffer, file.byteOffset + 8), first = file[6] === 1 ? 10 : 12;
  const begin = first + (first === 10 ? size.getUint16(0, true) : size.getUint32(0, true));
  const header = new TextDecoder().decode(file.subarray(first, begin)), inRows = /'fortran_order': False/.test(header);
  const dtype = inRows ? { f4: 'F32', f2: 'F16', f8: 'F64' }[/'descr': '<(f\d)'/.exec(header)?.[1]] : undefined;
  const shape = /'shape': \(([^)]*)\)/.exec(header)[1].split(',').filter(text => text.trim()).map(Number);
  return { dtype, shape, bytes: file.subarray(begin) };
}

// The numbers of {dtype, bytes}; null of a dtype that is not read here.
const floats = ({ dtype, bytes }) => decoders[dtype]?.(bytes.slice().buffer) ?? null;
const decoders = {
  F64: data => new Float64Array(data),
  F32: data => new Float32Array(data),
  F16: data => new Float16Array(data),
  BF16: data => new Float32Array(Uint32Array.from(new Uint16Array(data), half => half << 16).buffer),
};

// An .npy of float32, of two dimensions or more.
function npyOf(values, shape) {
  const text = `{'descr': '<f4', 'fortran_order': False, 'shape': (${shape.join(', ')}), }`;
  const header = text.padEnd(Math.ceil((10 + text.length + 1) / 64) * 64 - 11) + '\n';
  const file = new Uint8Array(10 + header.length + 4 * values.length);
  file.set([0x93, 0x4e, 0x55, 0x4d, 0x50, 0x59, 1, 0, header.length & 255, header.length >> 8]);
  file.set(new TextEncoder().encode(header), 10);
  file.set(new Uint8Array(Float32Array.from(values).buffer), 10 + header.length);
  return file;
}

// Numbers from -1 to 1 that are the same everywhere: a small generator of Lehmer.
function drawnNumbers(count, seed = 1) {
  let drawn = seed;
  return Float32Array.from({ length: count }, () => (drawn = drawn * 48271 % 2147483647) / 1073741824 - 1);
}
