package mount

const long = `Mounts a host's directory at MOUNTPOINT, an empty local directory, with FUSE, for
programs that know nothing of hosts. Needs no root, but fusermount3 (Debian: fuse3). It
logs in first, and then goes on in the background.

While the host cannot be reached, calls wait for --timeout and then fail with EIO;
Ctrl-C ends them at once. It reconnects by itself for as long as it is mounted. Open
files are opened again; one that is another file by then fails with ESTALE.

Writes are collected here. fsync and close return when the host has everything, and say
if it does not: data that could not be written is then kept in a local file that the
log names.

Names and attributes are believed for --cache, 1 s. Locks hold on this machine only.
Files belong to whom the host says; with -o idmap=user the host's user is you.

Unmount with usftp umount, or with fusermount3 -u.

Mount options (-o) are those of sshfs, as far as they make sense: ro, allow_other,
default_permissions, idmap=user, uid=N, gid=N, umask=N, follow_symlinks,
transform_symlinks, no_contain_symlinks, cache_timeout=N, noexec, noatime,
fsname=NAME. Words with a capital letter go to ssh_config.`

const examples = `  usftp mount host: ~/host
  usftp mount -o idmap=user,ro me@host:/srv/www ~/www
  usftp mount --cache 1m host:src ~/src
  usftp umount ~/host`

const umountLong = `Unmounts what usftp mount has mounted. Works whatever the host does. What is written
but not on the host yet is sent first, for up to the --timeout of the mount.`

const exitCodes = `0 if it is mounted, or was unmounted in the foreground with all data on the host; 1 if it
cannot be mounted, or data could not be written; 2 if the command line is wrong; 255 if the
host cannot be reached or logged in to.`

const umountExitCodes = `0 if it is unmounted, 1 if not, 2 if the command line is wrong.`
