// npm's ssh2 as a client and as a server of sessions: see site_test.go and server_test.go.
'use strict';
const fs = require('fs');
const { Client, Server, utils } = require('ssh2');

const [mode, dir, ...cases] = process.argv.slice(2);
const read = (name) => fs.readFileSync(`${dir}/${name}`);

// Not all are on by default.
const algorithms = {
  serverHostKey: ['ssh-ed25519', 'ecdsa-sha2-nistp256', 'rsa-sha2-512', 'rsa-sha2-256'],
};

function session(port, login, mib) {
  return new Promise((resolve, reject) => {
    const block = read('block');
    const conn = new Client();
    conn.on('error', reject);
    conn.on('close', () => reject(new Error('the connection was closed')));
    conn.on('keyboard-interactive', (name, text, lang, asked, done) =>
      done(asked.map(() => 'secret')));
    conn.on('ready', () => conn.exec('cat; echo words >&2; exit 3', (err, stream) => {
      if (err) return reject(err);
      let at = 0, words = '', code;
      stream.on('data', (data) => {
        for (let i = 0; i < data.length;) {
          const n = Math.min(data.length - i, block.length - at % block.length);
          const from = at % block.length;
          if (data.compare(block, from, from + n, i, i + n) !== 0) {
            return reject(new Error(`other data came back behind ${at} bytes`));
          }
          i += n;
          at += n;
        }
      });
      stream.stderr.on('data', (data) => { words += data; });
      stream.on('exit', (status) => { code = status; });
      stream.on('close', () => {
        if (at !== mib * block.length || words !== 'words\n' || code !== 3) {
          reject(new Error(`${at} bytes, standard error ${JSON.stringify(words)}, status ${code}`));
        }
        resolve();
        conn.end();
      });
      let left = mib;
      (function send() {
        while (left > 0) {
          left--;
          if (!stream.write(block)) return stream.once('drain', send);
        }
        stream.end();
      })();
    }));
    const options = { host: '127.0.0.1', port, username: 'ann', algorithms, readyTimeout: 60000 };
    if (login === 'password') options.password = 'secret';
    else if (login === 'keyboard') options.tryKeyboard = true;
    else options.privateKey = read(`id_${login}`);
    conn.connect(options);
  });
}

async function client() {
  for (const one of cases) {
    const [name, port, login, mib] = one.split(';');
    try {
      await session(Number(port), login, Number(mib));
      console.log(`ok ${name}`);
    } catch (err) {
      console.log(`FAIL ${name} ${err}`);
    }
  }
}

function server() {
  const keys = read('authorized_keys').toString().trim().split('\n').map((l) => utils.parseKey(l));
  const hostKeys = ['ed25519', 'ecdsa', 'rsa'].map((kind) => read(`host_${kind}`));
  // It offers group exchange and cannot do it as a server.
  const kex = { remove: /group-exchange/ };
  const listener = new Server({ hostKeys, algorithms: { ...algorithms, kex } }, (conn) => {
    conn.on('error', () => {});
    conn.on('authentication', (ctx) => {
      const methods = ['publickey', 'password', 'keyboard-interactive'];
      switch (ctx.method) {
        case 'password':
          return ctx.password === 'secret' ? ctx.accept() : ctx.reject(methods);
        case 'keyboard-interactive':
          return ctx.prompt([{ prompt: 'Password: ', echo: false }], (answers) =>
            answers[0] === 'secret' ? ctx.accept() : ctx.reject(methods));
        case 'publickey': {
          const key = keys.find((k) => k.getPublicSSH().equals(ctx.key.data));
          if (!key || ctx.signature && key.verify(ctx.blob, ctx.signature, ctx.hashAlgo) !== true) {
            return ctx.reject(methods);
          }
          return ctx.accept();
        }
      }
      ctx.reject(methods);
    });
    conn.on('session', (accept) => accept().on('exec', (accept) => {
      const stream = accept();
      stream.on('data', (data) => {
        if (!stream.write(data)) {
          stream.pause();
          stream.once('drain', () => stream.resume());
        }
      });
      stream.on('end', () => {
        stream.stderr.write('words\n');
        stream.exit(3);
        stream.end();
      });
    }));
  });
  listener.listen(0, '127.0.0.1', () => console.log(`PORT ${listener.address().port}`));
}

if (mode === 'client') client();
else server();
