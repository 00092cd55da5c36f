package cli

// Texts shared by help and the man page. Paragraphs are separated by empty lines; a paragraph whose
// lines begin with two spaces is kept as it is.

const rootLong = `usftp copies files over SSH with SFTP. The other side needs only an account and the
SFTP server that comes with every sshd.`

const completionLong = `Prints a script that completes command lines in a shell: commands, flags and their
values, hosts of ssh_config and known_hosts, and paths on hosts. Completing a path logs
in to the host: it asks nothing, accepts no host key, and gives up after a second. A
live ControlMaster makes it instant. With --hosts, :path is completed on the first host.
The script for bash needs the package bash-completion. To load it in every session:

  bash   usftp completion bash >~/.local/share/bash-completion/completions/usftp
  zsh    usftp completion zsh >"${fpath[1]}/_usftp"
  fish   usftp completion fish >~/.config/fish/completions/usftp.fish

In PowerShell this line does it, in the file that $PROFILE names:

  usftp completion powershell | Out-String | Invoke-Expression`

const filesLong = `These commands list, print and change files on hosts. They have the names, flags, output
and exit codes of the tools that do this for local files. Operands are as for cp: one or
more of host:path, on one host or several, and patterns, which are matched on the host.

With --json, each line of standard output is one JSON object. It has "v", the version of
this format, which is 1; "kind"; and usually "host" and "path". An object of the kind
"file" has attributes, "line" a line of text, "usage" and "space" sizes in bytes;
"removed", "made", "moved", "linked", "changed" and "touched" say what was done; "error"
has a message, which is printed on standard error too.`

// manual is the part of the man page besides the commands.
var manual = []struct{ title, text string }{
	{"HASHES", `With --verify, --hash, --manifest or --check-manifest, each file is hashed while it is
copied, on another processor if the machine has more than two. The local file is not
read twice.

--verify asks the host for the hash of what it stored. If the host cannot hash, the
file is read back, while other files of a tree are copied. On a server that counts each
read as a download, --verify is an error. A file that differs is removed, and the old
target stays. With -r and --resume, files that are already there are compared by the
host's hash too.

--manifest writes a list for sha256sum -c (or b3sum -c with --hash=blake3), to be run in
the target directory: if a directory was copied into the target, the names in the list
begin with that directory's name. The list is sorted by name and appears once it is
complete. It contains all files that were copied, even if others failed, and those that
--resume skipped.

--check-manifest reads such a list, from usftp or any other tool. A file that differs
fails and does not replace the old target; a name in the list that was not copied fails;
a file that is not in the list is copied, with a note. Names may be relative to the
target directory, to the source, or to the source's parent: a list that "--manifest LIST
photos host:" wrote also works with "--check-manifest LIST host:photos new-name". A list
with a name that leads elsewhere (absolute, or with ..) is refused.

usftp check compares files that are already there with such a list.

Lists use SHA-256 unless --hash says otherwise, because every system can check it.
BLAKE3 takes half the processor time or less. --verify uses the fastest hash that the
host supports.`},
	{"JSON EVENTS", `With --json, each line of standard output is one JSON object. Errors are still printed
on standard error too.

Every object has "v", the version of this format, which is 1; "kind"; and "time"
(RFC 3339). The version changes when a field is removed or changes its meaning.
Fields and kinds may be added without a new version, so programs should ignore those
they do not know. The kinds are:

  started   the copy of a file begins
  progress  bytes counts those that have arrived, and resumed those of them that an
            earlier copy left (done has it too); finishing is true once all have
            arrived, and phase says what is done then: "hashing", "verifying",
            "rereading" (a source that was modified just before), "comparing",
            "deleting", "waiting for the host" or "finishing"; checked counts the bytes
            that were hashed or read again. stalled_ns is for how long a
            host has sent nothing of what it owes, once that is 5 seconds; wait_ns is
            then the time until the connection is given up
  note      message says something surprising about how the copy is made
  warning   message says what is wrong or left behind, if that is not a failure
  done      bytes and elapsed_ns are final; bottleneck, if known, says what limited
            the speed: "link window", "link", "server", "processor",
            "disk" or "limit"; with --hash and related flags, hash is "sha256:" or
            "blake3:" and hexadecimal digits, and name is the path as in a list of
            hashes; with --verify, verified is "hash" or "reading"; reused counts
            the bytes that were taken from an older version at the target
  failed    message says why; left_behind names what is left of the file
  retried   a connection was lost, or could not be replaced, as message says; usftp
            reconnects after wait_ns
  renewed   the lost connection has been replaced
  kept      with -r and --resume: the file was already there
  planned   with --dry-run: the file would be copied; for sync, reason says why: new,
            type, size, time, hash, link; or only its mode, owner or time would be
            set (mode, owner, touch); or it would be deleted (extra). done has
            reason too
  deleted   for sync: SRC did not have the file
  skipped   with -r: message says why the file is not copied
  ended     a tree is done; message says what went wrong, if anything
  error     message says why a host or a source could not be used
  exit      the last line: code is the exit code, copied counts files, failed files
            and errors, and bytes those of the files copied

The events of a file have host; direction ("upload", "download", "relay", "local" or
"check"); source and target (paths, without the host); for a relay, source_host; size
(-1 if it is not known); bytes; elapsed_ns (nanoseconds since its start); and paused_ns,
for how long of these there was no connection or usftp was stopped.

With -r, tree is true in all of them, and the tree's own started, progress and ended
events have totals: planned_files and planned_bytes (which grow until complete is true),
and files, bytes, resumed, directories, links, kept (and kept_bytes, which are planned
but need no copying), skipped (young are those of --min-age), removed (from the source) and
failed so far. For sync they also have attrs, deleted and vanished, and kept counts the
files that were equal, for which there are no events. The done event of a file has removed
if that was deleted from the source.

With --hosts, every object has on, the host as given in the list. When a host is done
there is an object of the kind "host", with its code, files, bytes and elapsed_ns. The
last line, of the kind "hosts", has them for all hosts together, the number of hosts,
and how many of them failed.

In events of check, direction is "check" and name is the file's name in the list. A file
that matches is done; one that differs or is missing is failed; one that is not in the
list is skipped, or with --strict failed. In exit, checked counts the files that match.

Names need not be UTF-8, but JSON must be: other bytes appear as U+FFFD. A field with
such bytes has another beside it with "_base64" added to its name, such as
"source_base64", which has all of the bytes.`},
	{"SIGNALS", `SIGINT (Ctrl-C), SIGTERM and SIGHUP stop the copy. What has arrived is kept
under its temporary name, which is printed. This takes a few seconds at most; a second
signal ends the program at once. usftp serve handles signals as described above.`},
	{"ENVIRONMENT", `GOMAXPROCS, GOGC and GOMEMLIMIT have their usual meaning in Go programs.
LS_COLORS has the colours of usftp ls, and NO_COLOR turns them off.
SSH_ASKPASS names a program that asks for passwords, passphrases and host keys where there
is no terminal, and SSH_ASKPASS_REQUIRE says when it is used, both as for ssh(1).
SSH_AUTH_SOCK names the agent's socket.
USFTP_COMPLETION_TIMEOUT is how long completion waits for a host, such as 3s (default 1s).
USFTP_HISTORY=no keeps runs out of usftp history.
USFTP_REMEMBER_LOGINS=no turns off the notes of which key worked where (see FILES).
USFTP_SSH_STACK=xcrypto uses golang.org/x/crypto/ssh instead of our own SSH, to find
out which of the two is at fault.`},
	{"FILES", `~/.ssh/config, /etc/ssh/ssh_config: how to connect; see ssh_config(5).

~/.ssh/known_hosts, /etc/ssh/ssh_known_hosts: host keys; see sshd(8).

~/.config/usftp/host_ed25519_key: the host key of usftp serve, unless --host-key names
another.

~/.local/state/usftp/failed-hosts: the hosts that failed in the last run of a command
with --hosts, for --retry-failed. This and the next three are in $XDG_STATE_HOME/usftp if
that variable is set.

~/.local/state/usftp/history: what usftp history lists.

~/.local/state/usftp/journal: what interrupted copies left behind, and where. The same
command reads it to continue (with --resume) or to clean up. Entries expire after a month.

~/.local/state/usftp/logins: hashes that say which key worked for which user and host key,
so that the next login can sign with it at once, and which servers refuse that.

~/.ssh/authorized_keys: the keys that may log in to usftp serve, unless
--authorized-keys names another file; see sshd(8).`},
}

const manSeeAlso = "ssh(1), scp(1), sftp(1), ssh_config(5), sftp-server(8), sshd_config(5)"
