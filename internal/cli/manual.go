package cli

// The texts that help and the man page share. Paragraphs are separated by empty lines; a paragraph
// whose lines begin with two spaces is kept as it is.

const rootLong = `usftp copies files over SSH with SFTP. All that it needs on the other side is an
account and the SFTP server that every sshd has.`

const copyLong = `Copies files to hosts, from hosts, from one host to another, or from one local place to another.

A source or target is a local file, host:path, user@host:path, or
sftp://user@host:port/path; - is standard input or output. A path after host:
starts at the login directory unless it begins with / or, where the server knows
homes, ~user/. In an sftp:// address the path is absolute, and /~/ is the login
directory; scp:// addresses are taken too, and mean what they mean to scp. As with
scp, a local name with a colon needs a / in front of the colon: ./a:b.

Patterns (* ? [a-z]) in a remote source are matched on the host. Where nothing
matches, a file that has exactly this name is taken.

With several sources the target must be a directory, or - for all of them one
after the other.

With -r a directory becomes the target; where the target is a directory already,
the copy comes to lie in it under its own name. A / at the end of the source
changes nothing in that; what lies in the source goes into the target itself where
the source ends in /. (as in "-r site/. host:/var/www"). Files of trees keep their
times where that can be, -p or not; pipes, sockets and devices are passed over.

A pattern of --exclude and --include without a slash is compared with the last
element of a path ('*.o'), one with a slash with all of the path, which begins below
the source ('doc/*.txt', '/build'), and in which ** stands for any number of elements
('**/cache/*'); one that ends in a slash is for directories only ('.git/'). What
--exclude matches is left out even where --include matches it: there is no order, as
rsync has one.

From one host to another the data passes through this machine, which stores
nothing of it; each host is logged in to from here. Where both are one host and
user, the server copies by itself if it offers that. -P, -J and -i are for both;
ssh_config and sftp:// addresses tell them apart.

Data goes into a temporary file beside the target, .NAME.usftp-RANDOM, which
takes the target's name when all has arrived. When a copy fails, the target is
as it was before. What an interrupted copy leaves behind, it says; the same copy
with --resume goes on from that, and without removes it in the end. Where no
temporary file can be made, or the target is a local file with several names,
the target is written in place, and that is said. Devices and pipes are always
written so.

Between local files nothing is logged in to, and all else is the same. Where the
file system can share blocks (btrfs, XFS), the copy shares them. An interrupted
local copy of one file begins anew.

Holes of local files are not sent, and are holes in the copy. What comes from a
host has no holes that could be seen; --sparse makes holes of its zeros.

Connections are made as ssh makes them: with the user's ssh_config, known_hosts,
agent and keys. Flags that scp has keep scp's letter and meaning. They may stand
before, between and after the operands; what follows -- is an operand.`

const copyExamples = `  usftp cp big.iso host:
  usftp cp 'user@host:/var/log/*.gz' logs/
  usftp cp sftp://user@host:2222/srv/data.tar .
  usftp cp -r photos/ /mnt/backup
  mysqldump db | usftp cp - host:backup/db.sql
  usftp cp host:backup/db.sql - | less
  usftp cp -r --verify --manifest SHA256SUMS photos host:
  usftp cp -r --check-manifest SHA256SUMS host:photos .
  usftp cp -r old:/srv/www new:/srv`

const checkLong = `Compares the files below a directory, of a host or of this machine, with a list of
hashes as sha256sum (or b3sum) writes it, and copies nothing. DIR is a local
directory, host:path or any other form that cp takes; names in the list begin there.

A host that hashes files is asked for their hashes, many at once. Else they are read
through, which takes as long as to copy them, and nothing is kept of them.

What differs (FAILED), cannot be read (FAILED to read) or is missing is written to
standard output, with -v what is right (OK) too. How many files are there and not in
the list is said at the end; with -v or --strict which, and with --strict they have
failed. A name in the list may lead through symbolic links; other links are passed
over. A list with a name that leads elsewhere (absolute, or with ..) is refused.

Control characters of names are written as \x1b and the like.`

const checkExamples = `  usftp check SHA256SUMS host:photos
  usftp check --strict SHA256SUMS user@host:/srv/www
  usftp check --hash blake3 B3SUMS /mnt/backup/photos`

const serveLong = `Serves a directory to SFTP and SCP clients, over SSH, until it is ended. There are
no shells, no commands and no forwarding, and no path or link leads out of the
directory.

Who may log in: the owners of the keys in --authorized-keys, or in the caller's
own ~/.ssh/authorized_keys; where there are none, whoever has the one-off
password that is shown at the start. The server's own key is made at the first
start and kept in the user's configuration directory, as
~/.config/usftp/host_ed25519_key, so that clients know the server again.

Unless --listen says otherwise, it listens on 127.0.0.1:2022, where only programs
on this machine reach it. What happens is written to standard error: logins,
files with their bytes and rate, and what was denied.

SIGINT (Ctrl-C) and SIGTERM end it: nobody new is let in, and sessions that run
may go on for the time of --grace; a second signal ends it at once. SIGHUP has it
read its keys, users and limits again, and count anew what lies under quotas; who
has logged in stays.

With --config it serves several users, each with a directory, keys, a password
and bounds; docs/serve.md describes the file. Flags win over it.

With --stdio it takes the place of sftp-server in sshd_config, with its flags
-d, -e, -l, -P, -p, -R and -u. It serves the whole file system, with the rights of
the user who logged in:

  Subsystem sftp /usr/local/bin/usftp serve --stdio`

const serveExamples = `  usftp serve .
  usftp serve --listen :2022 --read-only /srv/pub
  usftp serve --user deploy --authorized-keys deploy.pub --metrics=:9722 /srv/www
  usftp serve --config /etc/usftp/serve.toml`

const hashPasswordLong = `Asks for a password, twice, and prints its hash by argon2id, as the setting
"password" of a user in the configuration of serve takes it. Where standard input
is no terminal, its first line is the password.`

const hashPasswordExamples = `  usftp hash-password
  pass show sftp/guest | usftp hash-password`

const demoLong = `Starts an SFTP server of its own on the loopback address, with keys made for the
occasion, copies files to it and back with the code that cp runs, checks what
has arrived, and says how fast it was. It needs nothing but room for the files
in the directory for temporary files, and removes what it has made.`

const completionLong = `Prints a script for a shell that completes commands and flags. To have it in
every session of the shell:

  bash   usftp completion bash >~/.local/share/bash-completion/completions/usftp
  zsh    usftp completion zsh >"${fpath[1]}/_usftp"
  fish   usftp completion fish >~/.config/fish/completions/usftp.fish`

// manual is what the man page has besides the commands.
var manual = []struct{ title, text string }{
	{"HASHES", `With --verify, --hash, --manifest or --check-manifest the hash of each file is
taken while its bytes pass, on another processor where the machine has more than
two, and the file on this machine is not read a second time.

--verify asks the host for the hash of what it has stored. Where it can hash
nothing, what it has stored is read back, while other files of a tree are copied.
A host that counts how often a file is read is not read again: to verify is an
error there. What differs is removed, and the old target stays. With -r and
--resume, files that are there already are compared by the host's hash too.

A --manifest is for sha256sum -c, or b3sum -c with --hash=blake3, in the
directory that was named as the target: a tree that became the target itself is
listed from there on, and one that came to lie in it with its name in front. It is
sorted by name, and takes its name when it is complete. Whatever was copied is in
it even if other files failed; so are files that --resume has passed over.

--check-manifest takes such a list, from whoever made it. A file that differs
fails, and does not take its name; a name in the list that was not copied fails; a
file that is not in the list is copied, with a word. Names may be as they are in the
target directory, as they are in the source, or as they are where the source lies:
what "--manifest LIST photos host:" has written is good for
"--check-manifest LIST host:photos new-name" too. A list with a name that leads
elsewhere (absolute, or with ..) is refused.

usftp check compares with such a list what a host, or this machine, has already.

SHA-256 is taken for lists unless --hash says otherwise, since every system can
check it. BLAKE3 takes half the processor time or less. To verify, what the host has
and is fastest is taken.`},
	{"JSON EVENTS", `With --json, each line of standard output is one JSON object. Errors still go to
standard error too, for people.

Every object has "v", the version of this form, now 1, "kind", and "time"
(RFC 3339). The version changes when a field goes or changes its meaning; fields
and kinds may be added without, so a program should skip those that it does not
know.

  started   a file: size is known, or -1
  progress  bytes of it have arrived so far; with --resume, resumed of them with
            an earlier copy (done tells that too)
  note      message says what is no failure, but worth knowing
  done      bytes and elapsed_ns are final; bound, where it is known, is what
            bound the speed: "link window", "link", "server", "processor",
            "disk" or "limit"; with --hash and its like, hash is "sha256:" or
            "blake3:" and hexadecimal digits, and name the path that a list
            has; with --verify, verified is "hash" or "reading"
  failed    message says why; left_behind names what is left of it
  retried   a connection was lost; message says why, and it is made anew after
            wait_ns
  kept      with -r and --resume: the file was there already
  planned   with --dry-run: it would be copied
  skipped   with -r: message says why it is not copied
  ended     a tree is done; message says what went wrong, if anything did
  error     message says why a host or a source could not be used at all
  skipped   message says why an entry of a tree was left out
  exit      the last: code is the exit code, copied counts files, failed files
            and errors, bytes those of the files copied

Those of check have the direction "check" and in name what the list calls the file. A
file that is right is done, one that differs or is missing has failed, one that is not in
the list is skipped, or with --strict has failed; the exit's checked counts those that are
right.

The events of a file have host, direction ("upload", "download", "relay", "local" or "check"),
source and target (paths, without the host), of a relay source_host, size (-1 where it is not known), bytes, and
elapsed_ns (nanoseconds since its start). Bytes of a name that are no UTF-8
appear as U+FFFD.

With -r, "tree" is true in all of them, and the tree's own started, progress and
ended events have "totals": planned_files and planned_bytes (which grow until
complete is true), and files, bytes, resumed, directories, links, kept (and kept_bytes, which are
planned but need no copying), skipped and failed so far.`},
	{"SIGNALS", `SIGINT (Ctrl-C), SIGTERM and SIGHUP stop the copy. What has arrived is kept under
its temporary name, and that name is said. This takes at most a few seconds; a
second signal ends the program at once. usftp serve has its own: see there.`},
	{"ENVIRONMENT", `GOGC and GOMEMLIMIT replace the program's own setting of Go's memory manager.
SSH_AUTH_SOCK names the agent's socket.`},
	{"FILES", `~/.ssh/config, /etc/ssh/ssh_config: how to connect, see ssh_config(5).

~/.ssh/known_hosts, /etc/ssh/ssh_known_hosts: the keys of hosts, see sshd(8).

~/.config/usftp/host_ed25519_key: the key of usftp serve, where --host-key names
no other.

~/.local/state/usftp/journal, or usftp/journal in $XDG_STATE_HOME: what interrupted
copies have left behind, and where. The same copy reads it, with --resume to go on and
without to remove it. What is older than a month is forgotten.

~/.ssh/authorized_keys: who may log in to usftp serve, where --authorized-keys
names no other file, see sshd(8).`},
}

const manSeeAlso = "ssh(1), scp(1), sftp(1), ssh_config(5), sftp-server(8), sshd_config(5)"
