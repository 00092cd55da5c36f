// Operations with ssh2, each over a connection of its own: a line with port, key file, operation and
// arguments in, its status and output out.
const fs = require('fs');
const readline = require('readline');
const { Client } = require('ssh2');

function run([port, key, operation, ...args], ended) {
  const connection = new Client();
  let status = 0;
  let said = '';
  const fail = (err) => {
    status = 1;
    said += err.stack;
    connection.end();
  };
  connection.on('error', fail);
  connection.on('close', () => ended({ Status: status, Said: said }));
  connection.on('ready', () => connection.sftp((err, sftp) => {
    if (err) return fail(err);
    const done = (err) => (err ? fail(err) : connection.end());
    switch (operation) {
      case 'put': return sftp.fastPut(args[0], args[1], done);
      case 'get': return sftp.fastGet(args[0], args[1], done);
      case 'rename': return sftp.rename(args[0], args[1], done);
      case 'symlink': return sftp.symlink(args[0], args[1], done); // target, link
      case 'link': return sftp.ext_openssh_hardlink(args[0], args[1], done);
      case 'chmod': return sftp.chmod(args[1], parseInt(args[0], 8), done);
      case 'list': return sftp.readdir(args[0], (err, list) => {
        if (err) return fail(err);
        said = list.map((entry) => entry.filename).join('\n');
        connection.end();
      });
    }
    fail(new Error('no operation ' + operation));
  }));
  connection.connect({
    host: '127.0.0.1',
    port: Number(port),
    username: 'u',
    privateKey: fs.readFileSync(key),
    readyTimeout: 300_000,
  });
}

console.log(); // it is there
readline.createInterface({ input: process.stdin }).on('line', (line) => run(JSON.parse(line),
  (result) => console.log(JSON.stringify(result))));
