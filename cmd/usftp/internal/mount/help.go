package mount

const long = `Mounts a host's directory at MOUNTPOINT, an empty local directory, with FUSE, so that
local programs can use its files. It needs fusermount3 (Debian: fuse3), but not root. It
logs in first, and then moves to the background.

While the host cannot be reached, calls wait for --timeout and then fail with EIO;
Ctrl-C ends them at once. The mount reconnects by itself for as long as it exists, and
reopens files; if a name belongs to a different file by then, calls on the open file fail
with ESTALE.

Writes are buffered on this machine. fsync and close return once the host has everything,
or fail. Data that could not be written is then kept in a local file, which the log
names.

Names and attributes are cached for --cache, one second by default. Locks hold
on this machine only. Files of the user you log in as are yours, unless you are root
(-o idmap=user and idmap=none say so explicitly); others belong to the owners that the
host reports.

Unmount with usftp umount, or with fusermount3 -u.

Mount options (-o) are those of sshfs, as far as they make sense: ro, allow_other,
default_permissions, idmap=user, idmap=none, uid=N, gid=N, umask=N, follow_symlinks,
transform_symlinks, no_contain_symlinks, cache_timeout=N, noexec, noatime,
fsname=NAME. Options that begin with a capital letter are those of ssh_config.`

const examples = `  usftp mount host: ~/host
  usftp mount -o idmap=user,ro me@host:/srv/www ~/www
  usftp mount --cache 1m host:src ~/src
  usftp umount ~/host`

const umountLong = `Unmounts a directory that usftp mount has mounted, even if the host does not answer. Data
that programs wrote before they were killed is still sent, for up to the mount's --timeout.`

const exitCodes = `0 if the directory is mounted, or with -f was unmounted with all data on the host; 1 if it
cannot be mounted, or data could not be written; 2 for wrong usage; 255 if the host cannot
be reached or logged in to.`

const umountExitCodes = `0 if everything is unmounted, 1 if not, 2 for wrong usage.`
