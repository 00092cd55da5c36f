package cli

// Texts shared by help and the man page. Paragraphs are separated by empty lines; a paragraph whose
// lines begin with two spaces is kept as it is.

const rootLong = `usftp copies files over SSH with SFTP. The other side needs only an account and the
SFTP server that comes with every sshd.`

const completionLong = `Prints a script that completes command lines in a shell: commands, flags and their
values, hosts of ssh_config and known_hosts, and paths on hosts. Completing a path logs
in to the host: it asks nothing, accepts no host key, and gives up after a second. A
live ControlMaster makes it instant. The script for bash needs the package
bash-completion. To load it in every session:

  bash   usftp completion bash >~/.local/share/bash-completion/completions/usftp
  zsh    usftp completion zsh >"${fpath[1]}/_usftp"
  fish   usftp completion fish >~/.config/fish/completions/usftp.fish`

const filesLong = `Files on hosts that are not copied are listed, printed and changed by commands named
after the tools whose flags, output and exit codes they have. Operands are as for cp:
host:path, several of them on one host or more, and patterns, which match on the host.

With --json, each line of standard output is one JSON object with "v", the version of
this form, now 1, "kind", and usually "host" and "path": "file" has attributes, "line"
a line of text, "usage" and "space" sizes in bytes; "removed", "made", "moved",
"linked", "changed" and "touched" say what was done; "error" has a message, which is
printed on standard error too.`

// manual is the part of the man page besides the commands.
var manual = []struct{ title, text string }{
	{"HASHES", `With --verify, --hash, --manifest or --check-manifest, each file is hashed while its
bytes pass, on another processor if the machine has more than two. The local file is
not read twice.

--verify asks the host for the hash of what it stored. If the host cannot hash, the
file is read back, while other files of a tree are copied. On a server that counts
reads, --verify is an error. A file that differs is removed, and the old target
stays. With -r and --resume, files that are already there are compared by the host's
hash too.

--manifest writes a list for sha256sum -c (or b3sum -c with --hash=blake3), to be run
in the directory given as the target: names begin at a tree that became the target
itself, and have the tree's name in front if it was copied into the target. The list is
sorted by name and appears once it is complete. It has all files that were copied, even
if others failed, and those that --resume skipped.

--check-manifest reads such a list, whoever made it. A file that differs fails and does
not get its name; a name in the list that was not copied fails; a file that is not in
the list is copied with a note. Names may be as in the target directory, as in the
source, or as beside the source: what "--manifest LIST photos host:" wrote works with
"--check-manifest LIST host:photos new-name" too. A list with a name that leads
elsewhere (absolute, or with ..) is refused.

usftp check compares files that are already there with such a list.

Lists use SHA-256 unless --hash says otherwise, because every system can check it.
BLAKE3 takes half the processor time or less. --verify uses the fastest hash that the
host supports.`},
	{"JSON EVENTS", `With --json, each line of standard output is one JSON object. Errors are still printed
on standard error too.

Every object has "v", the version of this form, now 1, "kind", and "time"
(RFC 3339). The version changes when a field is removed or changes its meaning.
Fields and kinds may be added without a new version, so programs should ignore those
they do not know.

  started   a file: size is known, or -1
  progress  bytes have arrived so far; with --resume, "resumed" of them in an
            earlier copy (done has it too); "finishing" is true when all have arrived
            and are still hashed, verified or written to disk, or when the source,
            which had just been written to, is read again: "checked" of them so far
  note      message says how it is done, where that may surprise
  warning   message says what is not as it should be, or is left behind; no failure
  done      bytes and elapsed_ns are final; bound, if known, is what limited
            the speed: "link window", "link", "server", "processor",
            "disk" or "limit"; with --hash and its like, hash is "sha256:" or
            "blake3:" and hexadecimal digits, and name the path that a list
            has; with --verify, verified is "hash" or "reading"; reused is how
            many of the bytes an older version of the file had at the target
  failed    message says why; left_behind names what is left of it
  retried   a connection was lost; message says why, and usftp reconnects after
            wait_ns
  kept      with -r and --resume: the file was already there
  planned   with --dry-run: it would be copied; of sync, reason says why: new, type,
            size, time, hash, link; or only its mode, owner or time would be set (mode,
            owner, touch); or it would be deleted (extra). done has it too
  deleted   of sync: SRC did not have it
  skipped   with -r: message says why it is not copied
  ended     a tree is done; message says what went wrong, if anything
  error     message says why a host or a source could not be used
  exit      the last line: code is the exit code, copied counts files, failed files
            and errors, bytes those of the files copied

With --hosts, every object has "on", the host as it stands in the list. When a host is
done there is one of kind "host", with its code, files, bytes and elapsed_ns; the last
line, of kind "hosts", has them for all, and in hosts and failed how many there were.

Those of check have the direction "check" and in name what the list calls the file. A
file that is right is done, one that differs or is missing has failed, one that is not in
the list is skipped, or with --strict has failed; the exit's checked counts those that are
right.

The events of a file have host, direction ("upload", "download", "relay", "local" or "check"),
source and target (paths, without the host), of a relay source_host, size (-1 where it is not known), bytes, and
elapsed_ns (nanoseconds since its start).

Names need not be UTF-8, but JSON must be: other bytes appear as U+FFFD. For a field that
has any, the object also has one with "_base64" after its name, such as
"source_base64", which has all of the bytes.

With -r, "tree" is true in all of them, and the tree's own started, progress and
ended events have "totals": planned_files and planned_bytes (which grow until
complete is true), and files, bytes, resumed, directories, links, kept (and kept_bytes, which are
planned but need no copying), skipped and failed so far. For sync they also have
attrs, deleted and vanished, and kept counts the files that were equal, for which there
are no events.`},
	{"SIGNALS", `SIGINT (Ctrl-C), SIGTERM and SIGHUP stop the copy. What has arrived is kept
under its temporary name, which is printed. This takes a few seconds at most; a second
signal ends the program at once. usftp serve handles signals in its own way, see above.`},
	{"ENVIRONMENT", `GOMAXPROCS, GOGC and GOMEMLIMIT have their usual meaning in Go programs.
LS_COLORS has the colours of usftp ls, and NO_COLOR turns them off.
SSH_AUTH_SOCK names the agent's socket.
USFTP_COMPLETION_TIMEOUT is how long completion may ask a host, such as 3s (default 1s).
USFTP_REMEMBER_LOGINS=no keeps no notes of which key worked where, and uses none (see
FILES).
USFTP_SSH_STACK=xcrypto uses golang.org/x/crypto/ssh instead of our own SSH, to find
out which of the two is at fault.`},
	{"FILES", `~/.ssh/config, /etc/ssh/ssh_config: how to connect; see ssh_config(5).

~/.ssh/known_hosts, /etc/ssh/ssh_known_hosts: host keys; see sshd(8).

~/.config/usftp/host_ed25519_key: the host key of usftp serve, unless --host-key names
another.

~/.local/state/usftp/failed-hosts: on which hosts the last run of a command with --hosts
failed, for --retry-failed.

~/.local/state/usftp/journal, or usftp/journal in $XDG_STATE_HOME: what
interrupted copies left behind, and where. The same command reads it to continue (with
--resume) or to clean up. Entries expire after a month.

~/.local/state/usftp/logins: hashes of which key worked for which user and host key, so
that the next login can sign with it at once, and of servers that refuse that.

~/.ssh/authorized_keys: who may log in to usftp serve, unless --authorized-keys
names another file; see sshd(8).`},
}

const manSeeAlso = "ssh(1), scp(1), sftp(1), ssh_config(5), sftp-server(8), sshd_config(5)"
