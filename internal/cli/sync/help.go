package sync

const long = `Makes the directory DST equal to the directory SRC: what SRC contains becomes what DST
contains, whether or not a path ends in a slash. Each is a local directory, host:path
or anything else that cp accepts. DST is created if it does not exist.

Files of the same size and modification time count as equal; the rest is copied as cp
copies it, under a temporary name first. Permissions, times and symbolic links are made
equal too.

Nothing is deleted without --delete. With it, what SRC does not have is deleted from DST
when everything has been copied without an error; nothing is if SRC could not be read
completely or is empty, or if that would be more than half of the files in DST (and more
than 10) and --max-delete does not allow it.

--exclude, --include and --exclude-from make one list of rules, in the order in which
they are given; the first that matches decides, and the rest is included. Patterns are
rsync's: one that begins with a slash is matched from SRC on, one with another slash
with the end of a path, any other with the last element; * and ? match no slash, **
does; one that ends in a slash matches only directories. What is excluded is neither
copied nor deleted.

While a run lasts, DST has the file .usftp-sync.lock, which keeps other runs out. One
left by a run that was killed is void after 10 minutes, or at once on the same machine.

--watch goes on after that, and copies what changes in SRC as it changes, until it is
interrupted. A file or directory that gets another name gets it in DST too, without
being copied. If changes come too fast for the system to tell of each, or a connection
cannot be replaced, everything is compared again.

The summary says how many files were copied, equal and deleted. Whatever interrupts a
run, the next one carries on from there.`

const exits = `0 if DST is equal to SRC, as far as that was asked for; 23 if something could not be
copied or deleted, among it files that changed while they were copied, and the rest is
done; 24 if files vanished from SRC meanwhile, and everything else is done; 25 if
nothing was deleted because it would have been too much or SRC is empty, or if another
run has the lock of DST; 2 for wrong usage; 255 if a host cannot be reached or the
connection was lost; 130 and 143 after a signal; 1 for everything else. 23 to 25 are
rsync's.`

const examples = `  usftp sync site host:/var/www
  usftp sync -n -v host:photos photos
  usftp sync --delete --backup-dir=.old --exclude='*.o' src host:src
  usftp sync --watch --delete src host:src
  usftp sync --checksum a:data b:data
  usftp sync --hosts web1,web2,web3 site :/var/www`
