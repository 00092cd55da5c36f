// npm's ssh2 leaves the files to those who use it: this is the least that makes a server of it.
'use strict';
const fs = require('fs');
const path = require('path');
const { Server, utils } = require('ssh2');
const { OPEN_MODE, STATUS_CODE } = utils.sftp;

const at = process.argv[2];
const read = (name) => fs.readFileSync(path.join(at, name));

function attrs(s) {
  return { mode: s.mode, uid: s.uid, gid: s.gid, size: s.size,
    atime: Math.floor(s.atimeMs / 1000), mtime: Math.floor(s.mtimeMs / 1000) };
}

function serve(sftp) {
  const handles = new Map();
  let next = 0;
  const keep = (value) => {
    const handle = Buffer.alloc(4);
    handle.writeUInt32BE(next);
    handles.set(next++, value);
    return handle;
  };
  const find = (handle) => handles.get(handle.readUInt32BE(0));
  const guarded = (name, f) => sftp.on(name, (id, ...args) => {
    try {
      f(id, ...args);
    } catch (err) {
      const code = { ENOENT: STATUS_CODE.NO_SUCH_FILE, ENOTDIR: STATUS_CODE.NO_SUCH_FILE,
        EACCES: STATUS_CODE.PERMISSION_DENIED }[err.code] || STATUS_CODE.FAILURE;
      sftp.status(id, code, err.message);
    }
  });
  const done = (name, f) => guarded(name, (id, ...args) => {
    f(...args);
    sftp.status(id, STATUS_CODE.OK);
  });
  guarded('OPEN', (id, name, flags, given) => {
    const c = fs.constants;
    let mode = flags & OPEN_MODE.WRITE ? (flags & OPEN_MODE.READ ? c.O_RDWR : c.O_WRONLY) : c.O_RDONLY;
    if (flags & OPEN_MODE.CREAT) mode |= c.O_CREAT;
    if (flags & OPEN_MODE.TRUNC) mode |= c.O_TRUNC;
    if (flags & OPEN_MODE.EXCL) mode |= c.O_EXCL;
    if (flags & OPEN_MODE.APPEND) mode |= c.O_APPEND;
    const fd = fs.openSync(name, mode, given.mode === undefined ? 0o666 : given.mode & 0o7777);
    sftp.handle(id, keep({ fd }));
  });
  guarded('READ', (id, handle, offset, length) => {
    const data = Buffer.alloc(length);
    const n = fs.readSync(find(handle).fd, data, 0, length, offset);
    if (n === 0) return sftp.status(id, STATUS_CODE.EOF);
    sftp.data(id, data.subarray(0, n));
  });
  done('WRITE', (handle, offset, data) =>
    fs.writeSync(find(handle).fd, data, 0, data.length, offset));
  guarded('OPENDIR', (id, name) => sftp.handle(id, keep({ dir: name, names: fs.readdirSync(name) })));
  guarded('READDIR', (id, handle) => {
    const open = find(handle);
    const names = open.names.splice(0, 100);
    if (names.length === 0) return sftp.status(id, STATUS_CODE.EOF);
    sftp.name(id, names.map((filename) => {
      const s = fs.lstatSync(path.join(open.dir, filename));
      return { filename, longname: filename, attrs: attrs(s) };
    }));
  });
  done('CLOSE', (handle) => {
    const open = find(handle);
    handles.delete(handle.readUInt32BE(0));
    if (open.fd !== undefined) fs.closeSync(open.fd);
  });
  guarded('LSTAT', (id, name) => sftp.attrs(id, attrs(fs.lstatSync(name))));
  guarded('STAT', (id, name) => sftp.attrs(id, attrs(fs.statSync(name))));
  guarded('FSTAT', (id, handle) => sftp.attrs(id, attrs(fs.fstatSync(find(handle).fd))));
  const set = (name, given) => {
    if (given.size !== undefined) fs.truncateSync(name, given.size);
    if (given.uid !== undefined) fs.chownSync(name, given.uid, given.gid);
    if (given.mode !== undefined) fs.chmodSync(name, given.mode & 0o7777);
    if (given.mtime !== undefined) fs.utimesSync(name, given.atime, given.mtime);
  };
  done('SETSTAT', set);
  done('FSETSTAT', (handle, given) => set(`/proc/self/fd/${find(handle).fd}`, given));
  guarded('REALPATH', (id, name) => {
    let real = path.resolve(path.join(at, 'files'), name);
    if (fs.existsSync(real)) real = fs.realpathSync(real);
    sftp.name(id, [{ filename: real, longname: real, attrs: {} }]);
  });
  guarded('READLINK', (id, name) => {
    const text = fs.readlinkSync(name);
    sftp.name(id, [{ filename: text, longname: text, attrs: {} }]);
  });
  done('SYMLINK', (link, target) => fs.symlinkSync(target, link));
  done('REMOVE', (name) => fs.unlinkSync(name));
  done('RMDIR', (name) => fs.rmdirSync(name));
  done('MKDIR', (name) => fs.mkdirSync(name));
  done('RENAME', (from, to) => {
    // Version 3 does not replace: draft-ietf-secsh-filexfer-02, section 6.5.
    if (fs.existsSync(to)) throw new Error(`${to} exists`);
    fs.renameSync(from, to);
  });
}

const key = utils.parseKey(read('id.pub'));
const server = new Server({ hostKeys: [read('host')] }, (conn) => {
  conn.on('error', () => {});
  conn.on('authentication', (ctx) => {
    if (ctx.method !== 'publickey' || !key.getPublicSSH().equals(ctx.key.data) ||
        ctx.signature && key.verify(ctx.blob, ctx.signature, ctx.hashAlgo) !== true) {
      return ctx.reject(['publickey']);
    }
    ctx.accept();
  });
  conn.on('session', (accept) => accept().on('sftp', (accept) => serve(accept())));
});
server.listen(0, '127.0.0.1', () => console.log(`PORT ${server.address().port}`));
process.stdin.resume().on('end', () => process.exit(0));
