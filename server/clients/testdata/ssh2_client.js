// One operation with ssh2: port, key file, operation, arguments.
const fs = require('fs');
const { Client } = require('ssh2');

const [port, key, operation, ...args] = process.argv.slice(2);
const connection = new Client();

function fail(err) {
  console.error(err);
  process.exit(1);
}

connection.on('error', fail);
connection.on('ready', () => connection.sftp((err, sftp) => {
  if (err) fail(err);
  const done = (err) => (err ? fail(err) : connection.end());
  switch (operation) {
    case 'put': return sftp.fastPut(args[0], args[1], done);
    case 'get': return sftp.fastGet(args[0], args[1], done);
    case 'rename': return sftp.rename(args[0], args[1], done);
    case 'symlink': return sftp.symlink(args[0], args[1], done); // target, link
    case 'link': return sftp.ext_openssh_hardlink(args[0], args[1], done);
    case 'chmod': return sftp.chmod(args[1], parseInt(args[0], 8), done);
    case 'list': return sftp.readdir(args[0], (err, list) => {
      if (err) fail(err);
      for (const entry of list) console.log(entry.filename);
      connection.end();
    });
  }
  fail(new Error('no operation ' + operation));
}));
connection.connect({ host: '127.0.0.1', port: Number(port), username: 'u', privateKey: fs.readFileSync(key) });
