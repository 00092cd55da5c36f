package cli

// The texts that help and the man page share. Paragraphs are separated by empty lines; a paragraph
// whose lines begin with two spaces is kept as it is.

const rootLong = `usftp copies files over SSH with SFTP. All that it needs on the other side is an
account and the SFTP server that every sshd has.`

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
SSH_AUTH_SOCK names the agent's socket.
USFTP_SSH_STACK=xcrypto uses golang.org/x/crypto/ssh in place of the program's own SSH, to
find out which of the two is to blame.`},
	{"FILES", `~/.ssh/config, /etc/ssh/ssh_config: how to connect, see ssh_config(5).

~/.ssh/known_hosts, /etc/ssh/ssh_known_hosts: the keys of hosts, see sshd(8).

~/.config/usftp/host_ed25519_key: the key of usftp serve, where --host-key names
no other.

~/.local/state/usftp/journal, or usftp/journal in $XDG_STATE_HOME: what interrupted
copies have left behind, and where. The same copy reads it, with --resume to go on and
without to remove it. What is older than a month is forgotten.

~/.local/state/usftp/logins: which key worked for a user and a server's key, as hashes, so
that the next login signs with it at once; and which servers do not take that.

~/.ssh/authorized_keys: who may log in to usftp serve, where --authorized-keys
names no other file, see sshd(8).`},
}

const manSeeAlso = "ssh(1), scp(1), sftp(1), ssh_config(5), sftp-server(8), sshd_config(5)"
