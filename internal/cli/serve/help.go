package serve

const long = `Serves a directory to SFTP and SCP clients, over SSH, until it is ended. There are
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

const examples = `  usftp serve .
  usftp serve --listen :2022 --read-only /srv/pub
  usftp serve --user deploy --authorized-keys deploy.pub --metrics=:9722 /srv/www
  usftp serve --config /etc/usftp/serve.toml`

const hashPasswordLong = `Asks for a password, twice, and prints its hash by argon2id, as the setting
"password" of a user in the configuration of serve takes it. Where standard input
is no terminal, its first line is the password.`

const hashPasswordExamples = `  usftp hash-password
  pass show sftp/guest | usftp hash-password`
