// The part of WASI preview 1 that rotary calls, over files in memory.
//   files: a Map of names, without a leading slash, to Uint8Array or File. A File is read piece by piece where it lies,
//   which only a worker can; what the program writes appears as Uint8Array. A folder that it makes is a name with a
//   slash at its end.
//   told: called with each piece of text on standard error, a terminal, where long commands say how far they are.
// Returns {imports, bind(memory), output()}; output() is the text since the last call, {output, error}.
function makeWasi(files, told) {
  const BADF = 8, EXIST = 20, INVAL = 28, NOENT = 44, NOSYS = 52;  // errno of WASI
  const FOLDER = 3, REGULAR = 4, CHARACTERS = 2;  // filetype of WASI
  const CREATE = 1, EXCLUSIVE = 4;  // oflags of path_open
  const encoder = new TextEncoder(), decoder = new TextDecoder();
  const root = 3;
  // The open files by descriptor: a folder {name}, a file that is read {name, at}, one that is written from its
  // beginning {name, written}, whose parts become the file when it is closed. The streams have no name.
  const open = [{ written: [] }, { written: [] }, { written: [] }, { name: '' }];
  const inodes = [];  // the names that were asked about
  let memory;

  const view = () => new DataView(memory.buffer);
  const bytes = (at, size) => new Uint8Array(memory.buffer, at, size);
  const put32 = (at, value) => view().setUint32(at, value, true) ?? 0;  // 0, as all calls, for success
  const put64 = (at, value) => view().setBigUint64(at, BigInt(value), true) ?? 0;
  const vectors = (at, count) => Array.from({ length: count }, (_, i) =>  // the places that a call reads or writes
    bytes(view().getUint32(at + 8 * i, true), view().getUint32(at + 8 * i + 4, true)));

  // The name of a path: "/a//./b/../c" is "a/c".
  function nameAt(fd, at, size) {
    const steps = [];
    const path = decoder.decode(bytes(at, size).slice());
    for (const step of ((open[fd]?.name ?? '') + '/' + path).split('/')) {
      if (step === '..') steps.pop();
      else if (step !== '' && step !== '.') steps.push(step);
    }
    return steps.join('/');
  }
  const startOf = folder => folder && folder + '/';  // how the names in a folder begin
  const namesBelow = folder => [...files.keys()].filter(name => name.startsWith(startOf(folder)));
  // The kind of a name, {name, type, size}; null if neither a file nor a folder has it.
  function kindOf(name) {
    if (files.has(name)) return { name, type: REGULAR, size: files.get(name).size ?? files.get(name).length };
    return name === '' || namesBelow(name).length ? { name, type: FOLDER, size: 0 } : null;
  }
  const kindAt = fd => (fd < root ? { type: CHARACTERS, size: 0 } : kindOf(open[fd]?.name));
  function putStatus(at, kind, otherwise) {
    if (!kind) return otherwise;
    bytes(at, 64).fill(0);
    if (!inodes.includes(kind.name)) inodes.push(kind.name);
    put64(at + 8, inodes.indexOf(kind.name));
    view().setUint8(at + 16, kind.type);
    return put64(at + 32, kind.size);
  }
  const ofFile = call => (fd, ...words) => (files.has(open[fd]?.name) ? call(open[fd], ...words) : BADF);

  function read(name, from, at, count) {
    const data = files.get(name);
    let done = 0;
    for (const place of vectors(at, count)) {
      const part = data.slice(from + done, from + done + place.length);
      const got = part instanceof Uint8Array ? part : new Uint8Array(new FileReaderSync().readAsArrayBuffer(part));
      place.set(got);
      done += got.length;
    }
    return done;
  }

  const sizeOf = parts => parts.reduce((sum, part) => sum + part.length, 0);
  function joined(parts) {
    const all = new Uint8Array(sizeOf(parts));
    let at = 0;
    for (const part of parts) {
      all.set(part, at);
      at += part.length;
    }
    return all;
  }

  const calls = {
    environ_sizes_get: (count, size) => put32(count, 0) + put32(size, 0),
    environ_get: () => 0,
    clock_time_get: (id, precision, at) => put64(at, Math.round(performance.now() * 1e6)),
    proc_exit: status => { throw new Error(`the program ended with ${status}`); },

    fd_prestat_get: (fd, at) => (fd === root ? put32(at, 0) + put32(at + 4, 1) : BADF),
    fd_prestat_dir_name: (fd, at) => (bytes(at, 1).set([47]), 0),
    fd_fdstat_get(fd, at) {
      const kind = kindAt(fd);
      if (!kind) return BADF;
      bytes(at, 24).fill(0);
      view().setUint8(at, kind.type);
      return put64(at + 8, fd === 2 ? 0 : 0x1fffffffn);  // a terminal is what cannot seek
    },
    fd_sync: () => 0,
    fd_filestat_get: (fd, at) => putStatus(at, kindAt(fd), BADF),
    path_filestat_get: (fd, flags, path, size, at) => putStatus(at, kindOf(nameAt(fd, path, size)), NOENT),
    path_open(fd, look, path, size, flags, rights, inherited, ways, at) {
      const name = nameAt(fd, path, size);
      if (files.has(name) && flags & CREATE && flags & EXCLUSIVE) return EXIST;
      if (!kindOf(name) && !(flags & CREATE)) return NOENT;
      if (flags & CREATE) files.set(name, new Uint8Array());
      return put32(at, open.push(flags & CREATE ? { name, written: [] } : { name, at: 0 }) - 1);
    },
    path_create_directory: (fd, path, size) => (files.set(nameAt(fd, path, size) + '/', new Uint8Array()), 0),
    fd_readdir(fd, at, size, cookie, used) {
      if (!open[fd]) return BADF;
      const start = startOf(open[fd].name);
      const names = new Set(namesBelow(open[fd].name).map(name => name.slice(start.length).split('/')[0]));
      names.delete('');  // the folder itself
      const entries = [...names].slice(Number(cookie)).map((name, i) => {
        const text = encoder.encode(name), entry = new Uint8Array(24 + text.length), head = new DataView(entry.buffer);
        head.setBigUint64(0, cookie + BigInt(i + 1), true);
        head.setUint32(16, text.length, true);
        head.setUint8(20, kindOf(start + name).type);
        entry.set(text, 24);
        return entry;
      });
      const part = Uint8Array.from(entries.flatMap(entry => [...entry])).subarray(0, size);
      bytes(at, part.length).set(part);
      return put32(used, part.length);
    },
    fd_pread: ofFile(({ name }, at, count, from, done) => put32(done, read(name, Number(from), at, count))),
    fd_read: ofFile((file, at, count, done) => {
      const got = read(file.name, file.at, at, count);
      file.at += got;
      return put32(done, got);
    }),
    fd_seek: ofFile((file, offset, whence, at) => {
      file.at = Number(offset) + [0, file.at, kindOf(file.name).size][whence];
      return put64(at, file.at);
    }),
    fd_write(fd, at, count, done) {
      if (!open[fd]?.written) return BADF;
      const parts = vectors(at, count).map(part => part.slice());
      open[fd].written.push(...parts);
      if (fd === 2) told(decoder.decode(joined(parts)));
      return put32(done, sizeOf(parts));
    },
    fd_close(fd) {
      if (fd < root || !open[fd]) return BADF;
      if (open[fd].written) files.set(open[fd].name, joined(open[fd].written));
      open[fd] = null;
      return 0;
    },
    path_rename(fd, path, size, toFd, to, length) {
      const name = nameAt(fd, path, size), now = nameAt(toFd, to, length);
      if (!kindOf(name)) return NOENT;
      for (const old of [name, ...namesBelow(name)].filter(one => files.has(one) && name !== now)) {
        files.set(now + old.slice(name.length), files.get(old));
        files.delete(old);
      }
      return 0;
    },
    path_unlink_file: (fd, path, size) => (files.delete(nameAt(fd, path, size)) ? 0 : NOENT),
    path_remove_directory: (fd, path, size) => (files.delete(nameAt(fd, path, size) + '/') ? 0 : NOENT),
    path_readlink: () => INVAL,  // nothing is a link
  };
  const imports = { wasi_snapshot_preview1: new Proxy(calls, { get: (all, name) => all[name] ?? (() => NOSYS) }) };
  function output() {
    const [text, errors] = [1, 2].map(fd => decoder.decode(joined(open[fd].written.splice(0))));
    return { output: text, error: errors.replace(/[^\n]*\r/g, '') };  // what a terminal would show last
  }
  return { imports, output, bind: given => { memory = given; } };
}
