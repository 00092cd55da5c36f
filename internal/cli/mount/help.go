package mount

const long = `Mounts a host's directory at MOUNTPOINT, an empty local directory, with FUSE, for
programs that know nothing about hosts. It needs fusermount3 (Debian: fuse3), but not
root. It logs in first, and then continues in the background.

While the host cannot be reached, calls wait for --timeout and then fail with EIO;
Ctrl-C ends them at once. It reconnects by itself for as long as it is mounted. Open
files are reopened; calls on one that is a different file by then fail with ESTALE.

Writes are buffered here. fsync and close return when the host has everything, and fail
if it does not: data that could not be written is then kept in a local file that the
log names.

Names and attributes are cached for --cache, 1 s. Locks hold on this machine only.
Files belong to the owners that the host reports; with -o idmap=user, those of the user
you log in as are yours.

Unmount with usftp umount, or with fusermount3 -u.

Mount options (-o) are those of sshfs, as far as they make sense: ro, allow_other,
default_permissions, idmap=user, uid=N, gid=N, umask=N, follow_symlinks,
transform_symlinks, no_contain_symlinks, cache_timeout=N, noexec, noatime,
fsname=NAME. Words with a capital letter go to ssh_config.`

const examples = `  usftp mount host: ~/host
  usftp mount -o idmap=user,ro me@host:/srv/www ~/www
  usftp mount --cache 1m host:src ~/src
  usftp umount ~/host`

const umountLong = `Unmounts what usftp mount has mounted, even if the host does not answer. What
killed programs have written is still sent afterwards, for up to the mount's --timeout.`

const exitCodes = `0 if it is mounted, or was unmounted in the foreground with all data on the host; 1 if it
cannot be mounted, or data could not be written; 2 if the command line is wrong; 255 if the
host cannot be reached or logged in to.`

const umountExitCodes = `0 if it is unmounted, 1 if not, 2 if the command line is wrong.`
