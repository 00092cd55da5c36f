package serve

const long = `Serves a directory to SFTP and SCP clients over SSH until it is interrupted. Clients
get no shell, no commands and no forwarding, and no path or link leads out of the
directory.

Anyone with a key in --authorized-keys, or in your own ~/.ssh/authorized_keys, may log
in. If there are no keys, a password is generated and printed at startup. The host
key is created at the first start and kept in your configuration directory
(~/.config/usftp/host_ed25519_key), so that clients recognize the server.

Without --listen, the server listens on 127.0.0.1:2022, which only programs on this
machine can reach. Logins, file transfers and refusals are logged to standard error.

SIGINT (Ctrl-C) and SIGTERM stop the server: new logins are refused, and running
sessions get the time of --grace to finish. A second signal stops it at once. SIGHUP
reloads the keys; existing logins stay.

To serve several users, with limits and metrics, run usftpd; see usftpd(8).

--stdio replaces sftp-server in sshd_config, with its flags -d, -e, -f, -l, -P, -p,
-Q, -R and -u. It serves the whole file system with the rights of the user who logged
in:

  Subsystem sftp /usr/local/bin/usftp serve --stdio`

const examples = `  usftp serve .
  usftp serve --listen :2022 --read-only /srv/pub
  usftp serve --user deploy --authorized-keys deploy.pub /srv`
