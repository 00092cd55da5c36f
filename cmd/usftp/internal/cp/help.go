package cp

import "github.com/usftp/usftp/cmd/usftp/internal/opt"

const long = `Copies files to hosts, from hosts, between hosts, or between local directories.

SRC and DST are local files, host:path, user@host:path or
sftp://user@host:port/path. - is standard input or output. A path after host: is
relative to the login directory unless it begins with / or, if the server supports
it, ~user/. In an sftp:// address the path is absolute, and /~/ is the login
directory. scp:// addresses work as they do with scp. A local name that contains a
colon needs a slash before it: ./a:b.

Patterns (* ? [a-z]) in a remote source are matched on the host. If nothing matches,
a file with exactly that name is copied. On Windows, * and ? in a local source are matched
here, as other programs do, since its shells do not.

With several sources, DST must be a directory, or - to write them one after another.
If two sources have the same name, the second is not copied over the first. With -r,
directories of the same name are merged, and of a file in both the last one stays, unless
--remove-source-files is given.

With -r, a directory is copied to DST, or into DST under its own name if DST is a
directory already. A trailing slash is ignored; end SRC with /. to copy its contents
(-r site/. host:/var/www), or give -T to copy to DST itself even if it is a directory.
The same command recognizes a DST that it created: for a week if it was interrupted, and
with --resume for up to a day after the copy was completed. Files in a tree keep their
times where possible, with or without -p. Pipes, sockets and devices are skipped.

` + opt.FilterHelp + `
To copy only *.go: --include='*.go' --include='*/' --exclude='*'.

Between two hosts, data passes through this machine, which logs in to both and
stores nothing. If both are the same host and user, the server makes the copy itself
if it can. -P, -J and -i apply to both hosts; for different settings, use ssh_config
or sftp:// addresses.

Data goes to a temporary file beside the target, .NAME.usftp-RANDOM, which is renamed
once it is complete. If a copy fails, the old target is untouched. An interrupted
copy prints what it leaves behind; the same command with --resume continues from
there, and without --resume removes it. If the host refuses temporary names, or
the local target has several hard links, the target is written in place, with a
warning. Devices and pipes are always written in place.

Local copies work the same way, without a login. They share blocks if the file
system can (btrfs, XFS). An interrupted local copy of a single file starts over.

Holes in local files are not sent, and stay holes. SFTP does not report holes in
remote files; --sparse turns blocks of zeros into holes.

With --hosts or --hosts-file, the command runs on several hosts at once. Operands that
begin with a colon are paths on each host. FILE :dir uploads; each file, local or
HOST:FILE, is read once for all hosts. :FILE DIR downloads to DIR/HOST. A stream goes to
all hosts at the pace of the slowest, within --patience. Each line of output begins with
its host, a table at the end sums up, and the exit code is the worst of all hosts. The
same command with --retry-failed runs only on the hosts that failed last time.

Connections use your ssh_config, known_hosts, agent and keys, as ssh does. Flags that
scp has keep scp's letter and meaning, except -T, which is that of cp and mv. Flags may
come anywhere; -- ends them.`

const examples = `  usftp cp big.iso host:
  usftp cp 'user@host:/var/log/*.gz' logs/
  usftp cp sftp://user@host:2222/srv/data.tar .
  usftp cp -r photos/ /mnt/backup
  mysqldump db | usftp cp - host:backup/db.sql
  usftp cp host:backup/db.sql - | less
  usftp cp -r --verify --manifest SHA256SUMS photos host:
  usftp cp -r --check-manifest SHA256SUMS host:photos .
  usftp cp -r old:/srv/www new:/srv
  usftp cp --hosts web1,web2,web3 release.tar.gz :/srv/incoming/
  usftp cp --hosts-file web.txt ':/var/log/*.log' logs/`
