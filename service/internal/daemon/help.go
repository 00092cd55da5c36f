package daemon

const long = `Serves directories to SFTP and SCP clients over SSH, to the users that a configuration
file describes: each with a directory, keys, a password and limits. Users get no
shell, no commands and no forwarding, and no path or link leads out of their directory.
docs/service.md describes the file. Flags override it.

Host keys are created at the first start. Unless the file or --host-key names them, they
are kept in the configuration directory of the user who runs usftpd (~/.config/usftp).

Without an address in the file or --listen, the server listens on 127.0.0.1:2022, which
only programs on this machine can reach. Logins, file transfers and refusals are logged
to standard error.

SIGINT (Ctrl-C) and SIGTERM stop the server: new logins are refused, and running
sessions get the time of --grace to finish. The exit code is then 0. A second signal
stops it at once. SIGHUP reloads keys, users and limits, and recounts quotas; existing
logins stay, unless their user is disabled or gone. SIGUSR2 starts the program again
without turning a client away: the new process takes over the listening sockets, and
this one ends with its last connection.`

const examples = `  usftpd --config /etc/usftp/usftpd.toml
  usftpd --config usftpd.toml --listen :2022 --metrics=:9722
  usftpd hash-password`

const checkLong = `Finds out whether usftpd would start with a configuration, or take it on SIGHUP,
as sshd -t does: it reads the file and what that names, opens the host keys and the
directories, connects to the store and to object storage, and then ends. Nothing is
made, except that a bucket is tried with an object of its own. What is wrong is printed,
and the exit code is then 1; that a store or an LDAP directory does not answer now, which
keeps no server from starting, is a warning. Run it as the user who runs the server, with
the flags of the server.`

const checkExamples = `  usftpd check --config /etc/usftp/usftpd.toml
  sudo -u usftp usftpd check --config /etc/usftp/usftpd.toml`

const completionLong = `Prints a script that completes command lines in a shell. The script for bash
needs the package bash-completion. To load it in every session:

  usftpd completion bash >~/.local/share/bash-completion/completions/usftpd
  usftpd completion zsh >"${fpath[1]}/_usftpd"
  usftpd completion fish >~/.config/fish/completions/usftpd.fish

In PowerShell this line does it, in the file that $PROFILE names:

  usftpd completion powershell | Out-String | Invoke-Expression`

const hashPasswordLong = `Asks for a password twice and prints its argon2id hash, for the "password"
setting of a user in the configuration. If standard input is not a terminal, its first
line is the password.`

const hashPasswordExamples = `  usftpd hash-password
  pass show sftp/guest | usftpd hash-password`

const userLong = `Manages the users in the store, which the configuration's [store] names, for all
nodes at once. A running server follows within a second: it ends the sessions of users who
are disabled or removed; others go on. Users of the configuration file are not listed, and
take precedence. With [[outside]], a user in no list can be disabled, too. Run it as the
user who runs the server.`

const userExamples = `  usftpd user add --config usftpd.toml --root /srv/ann --key ann.pub ann
  usftpd user add --config usftpd.toml --root /srv/bob --password bob <bobs-hash
  usftpd user list --config usftpd.toml`

const banLong = `Manages the bans in the store, which the configuration's [store] names, for all
nodes at once. An address stands for itself, or for its /64 in IPv6, as the server
counts them. A ban with a user refuses only the passwords of this user from there. Run
it as the user who runs the server.`

const banExamples = `  usftpd ban list --config usftpd.toml
  usftpd ban add --config usftpd.toml --for 12h 192.0.2.7
  usftpd ban add --config usftpd.toml --user ann 192.0.2.7
  usftpd ban lift --config usftpd.toml 192.0.2.7`

const auditLong = `Shows what has happened on all nodes: who has logged in, from where and with
which key, which files were read and written, what was changed, what has failed or was
refused, and who was banned. The configuration needs [audit]; keep says how long records
are kept, and hashes = true has files hashed.

Everything is shown unless flags say which. A pattern without a slash is about the last
part of a path, one that begins with a slash about all of it, and one that ends with a
slash about all that is below. Gaps in the trail are always shown. Run it as the user who
runs the server.`

const auditExamples = `  usftpd audit --config usftpd.toml --user acme --since 7d --path '*.xml'
  usftpd audit --config usftpd.toml --only logins,failures --since 2026-01-31
  usftpd audit --config usftpd.toml --since 30d --csv >month.csv`

const hooksLong = `Manages the events that hooks could not be told of in a day (give_up), which the
store keeps for 30 days. Each is listed with its ID, its hook, when it happened and why
it was not delivered. Run it as the user who runs the server.`

const hooksExamples = `  usftpd hooks list --config usftpd.toml
  usftpd hooks replay --config usftpd.toml forward
  usftpd hooks drop --config usftpd.toml 3V7ZUQ5DJ4BF6YKAMWRN2XCE4T`

const totpLong = `Manages the secrets of second factors (TOTP, RFC 6238) in the store, for all nodes
at once. new prints the URI that an authenticator app takes, mostly as a QR code, and
ten recovery codes, of which the store keeps hashes only. A user is asked for a code if
the configuration says second_factor = "totp" or the store --second-factor, and is not
let in without a secret then. Run it as the user who runs the server.`

const totpExamples = `  usftpd totp new --config usftpd.toml ann
  usftpd totp new --config usftpd.toml ann | head -n 1 | qrencode -t utf8
  usftpd totp list --config usftpd.toml
  usftpd totp remove --config usftpd.toml ann`
