package daemon

const long = `Serves directories to SFTP and SCP clients over SSH, to the users that a configuration
file describes: each with a directory, keys, a password and limits. Users get no
shell, no commands and no forwarding, and no path or link leads out of their directory.
docs/service.md describes the file. Flags override it.

The host key is created at the first start. Unless the file or --host-key names it, it
is kept in the configuration directory of the user who runs usftpd
(~/.config/usftp/host_ed25519_key).

Without an address in the file or --listen, the server listens on 127.0.0.1:2022, which
only programs on this machine can reach. Logins, file transfers and refusals are logged
to standard error.

SIGINT (Ctrl-C) and SIGTERM stop the server: new logins are refused, and running
sessions get the time of --grace to finish. The exit code is then 0. A second signal
stops it at once. SIGHUP reloads keys, users and limits, and recounts quotas; existing
logins stay.`

const examples = `  usftpd --config /etc/usftp/usftpd.toml
  usftpd --config usftpd.toml --listen :2022 --metrics=:9722
  usftpd hash-password`

const completionLong = `Prints a script that completes command lines in a shell. The script for bash needs the
package bash-completion. To load it in every session:

  usftpd completion bash >~/.local/share/bash-completion/completions/usftpd
  usftpd completion zsh >"${fpath[1]}/_usftpd"
  usftpd completion fish >~/.config/fish/completions/usftpd.fish`

const hashPasswordLong = `Asks for a password twice and prints its argon2id hash, for the "password" setting
of a user in the configuration. If standard input is not a terminal, its first line is
the password.`

const hashPasswordExamples = `  usftpd hash-password
  pass show sftp/guest | usftpd hash-password`
