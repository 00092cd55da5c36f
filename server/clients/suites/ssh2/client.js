// usage: client.js PORT KEY SERVED. Runs each step against the server, and looks at what came of it
// in the directory SERVED.
'use strict';
const assert = require('assert');
const fs = require('fs');
const path = require('path');
const { promisify } = require('util');
const { Client } = require('ssh2');

const [port, key, served] = process.argv.slice(2);
const here = (name) => path.join(served, name);
const data = Buffer.alloc(3000001, 'ssh2');

const steps = {
	async put(s) {
		fs.writeFileSync('local', data);
		await s('fastPut', 'local', 'put');
		assert(fs.readFileSync(here('put')).equals(data));
	},
	async get(s) {
		fs.writeFileSync(here('get'), data);
		await s('fastGet', 'get', 'got');
		assert(fs.readFileSync('got').equals(data));
	},
	async writeFile(s) {
		await s('writeFile', 'written', data);
		await s('appendFile', 'written', 'end');
		assert(fs.readFileSync(here('written')).equals(Buffer.concat([data, Buffer.from('end')])));
	},
	async readFile(s) {
		fs.writeFileSync(here('read'), data);
		assert((await s('readFile', 'read')).equals(data));
	},
	async manyHandles(s) {
		fs.writeFileSync(here('handles'), 'x');
		const open = [];
		for (let i = 0; i < 300; i++) open.push(await s('open', 'handles', 'r'));
		for (const handle of open) assert.strictEqual((await s('fstat', handle)).size, 1);
		for (const handle of open) await s('close', handle);
	},
	async readdir(s) {
		fs.mkdirSync(here('dir'));
		for (let i = 0; i < 500; i++) fs.writeFileSync(here('dir/' + i), '');
		const names = (await s('readdir', 'dir')).map((e) => e.filename);
		assert.strictEqual(names.filter((n) => n !== '.' && n !== '..').length, 500);
	},
	async rename(s) {
		fs.writeFileSync(here('from'), 'x');
		await s('rename', 'from', 'to');
		assert(fs.existsSync(here('to')) && !fs.existsSync(here('from')));
	},
	async posixRename(s) {
		fs.writeFileSync(here('from'), 'new');
		fs.writeFileSync(here('over'), 'old');
		await s('ext_openssh_rename', 'from', 'over');
		assert.strictEqual(fs.readFileSync(here('over'), 'utf8'), 'new');
	},
	async symlink(s) {
		await s('symlink', 'target', 'link');
		assert.strictEqual(await s('readlink', 'link'), 'target');
		assert.strictEqual(fs.readlinkSync(here('link')), 'target');
	},
	async hardlink(s) {
		fs.writeFileSync(here('one'), 'x');
		await s('ext_openssh_hardlink', 'one', 'two');
		assert.strictEqual(fs.statSync(here('two')).nlink, 2);
	},
	async statvfs(s) {
		assert((await s('ext_openssh_statvfs', '.')).f_bsize > 0);
	},
	async attributes(s) {
		fs.writeFileSync(here('attributes'), data);
		await s('chmod', 'attributes', 0o640);
		await s('utimes', 'attributes', 1000000000, 1100000000);
		const a = await s('stat', 'attributes');
		assert.strictEqual(a.mode & 0o777, 0o640);
		assert.strictEqual(a.mtime, 1100000000);
		assert.strictEqual(a.size, data.length);
		assert(a.isFile());
	},
	async directories(s) {
		await s('mkdir', 'made');
		assert((await s('lstat', 'made')).isDirectory());
		await s('rmdir', 'made');
		assert(!fs.existsSync(here('made')));
	},
	async unlink(s) {
		fs.writeFileSync(here('gone'), '');
		await s('unlink', 'gone');
		assert(!fs.existsSync(here('gone')));
	},
	async missing(s) {
		await assert.rejects(s('stat', 'missing'), { code: 2, message: 'No such file' });
	},
};

const client = new Client();
client.on('error', (err) => { throw err; });
client.on('ready', () => client.sftp(async (err, sftp) => {
	if (err) throw err;
	const s = (method, ...args) => promisify(sftp[method]).apply(sftp, args);
	for (const [name, step] of Object.entries(steps)) {
		let result = 'ok ' + name;
		try {
			await step(s);
		} catch (err) {
			result = 'FAIL ' + name + ' ' + err.message.split('\n')[0];
			console.log(name, err);
		}
		fs.appendFileSync(process.env.RESULTS, result + '\n');
	}
	client.end();
}));
client.connect({ host: '127.0.0.1', port, username: 'u', privateKey: fs.readFileSync(key) });
