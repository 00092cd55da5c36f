package sync

import "github.com/usftp/usftp/cmd/usftp/internal/opt"

const long = `Makes the contents of the directory DST equal to those of the directory SRC; a slash at
the end of either makes no difference. Each is a local directory, host:path or anything
else that cp accepts. DST is created if it does not exist.

Files of the same size and modification time count as equal; the rest are copied as by
cp, under a temporary name first. Permissions, times and symbolic links are made equal
too.

Nothing is deleted without --delete. With it, whatever SRC does not have is deleted from
DST once everything has been copied without an error. Nothing is deleted if SRC could not
be read completely or is empty, or if more than half of the files in DST (and more than
10) would go, unless --max-delete allows it. With --existing and --ignore-existing it only
deletes, which makes room on a full disk.

` + opt.FilterHelp + `
What is excluded is neither copied nor deleted.

During a run DST contains the file .usftp-sync.lock, which keeps other runs out. The lock
of a run that was killed expires after 10 minutes, or at once on the same machine.

With --watch, sync keeps running and copies what changes in SRC as it changes, until it
is interrupted. Files and directories that are renamed in SRC are renamed in DST, not
copied. It compares everything again if changes come too fast for the system to report
each one, if something cannot be copied, and a minute after the host could not be
reached.

On a terminal, with -v or if something went wrong, a summary says how many files were
copied, deleted, or already equal. If a run is interrupted, the next one continues
where it stopped.`

const exits = `0 if DST now equals SRC, as far as the flags ask for that; 23 if some entries could not
be copied or deleted, but the rest is done (this includes files that changed while they
were copied); 24 if files vanished from SRC during the run, but the rest was copied; 25
if nothing was deleted because it would have been too much or because SRC is empty, or if
another run holds the lock on DST; 2 for wrong usage; 255 if a host cannot be reached or
the connection was lost; 130 and 143 after a signal; 1 for everything else. 23 to 25 are
rsync's.`

const examples = `  usftp sync site host:/var/www
  usftp sync -n -v host:photos photos
  usftp sync --delete --backup-dir=.old --exclude='*.o' src host:src
  usftp sync --watch --delete src host:src
  usftp sync --checksum a:data b:data
  usftp sync --hosts web1,web2,web3 site :/var/www`
