package cp

const long = `Copies files to hosts, from hosts, from one host to another, or from one local place to another.

A source or target is a local file, host:path, user@host:path, or
sftp://user@host:port/path; - is standard input or output. A path after host:
starts at the login directory unless it begins with / or, where the server knows
homes, ~user/. In an sftp:// address the path is absolute, and /~/ is the login
directory; scp:// addresses are taken too, and mean what they mean to scp. As with
scp, a local name with a colon needs a / in front of the colon: ./a:b.

Patterns (* ? [a-z]) in a remote source are matched on the host. Where nothing
matches, a file that has exactly this name is taken.

With several sources the target must be a directory, or - for all of them one
after the other.

With -r a directory becomes the target; where the target is a directory already,
the copy comes to lie in it under its own name. A / at the end of the source
changes nothing in that; what lies in the source goes into the target itself where
the source ends in /. (as in "-r site/. host:/var/www"). Files of trees keep their
times where that can be, -p or not; pipes, sockets and devices are passed over.

A pattern of --exclude and --include without a slash is compared with the last
element of a path ('*.o'), one with a slash with all of the path, which begins below
the source ('doc/*.txt', '/build'), and in which ** stands for any number of elements
('**/cache/*'); one that ends in a slash is for directories only ('.git/'). What
--exclude matches is left out even where --include matches it: there is no order, as
rsync has one.

From one host to another the data passes through this machine, which stores
nothing of it; each host is logged in to from here. Where both are one host and
user, the server copies by itself if it offers that. -P, -J and -i are for both;
ssh_config and sftp:// addresses tell them apart.

Data goes into a temporary file beside the target, .NAME.usftp-RANDOM, which
takes the target's name when all has arrived. When a copy fails, the target is
as it was before. What an interrupted copy leaves behind, it says; the same copy
with --resume goes on from that, and without removes it in the end. Where no
temporary file can be made, or the target is a local file with several names,
the target is written in place, and that is said. Devices and pipes are always
written so.

Between local files nothing is logged in to, and all else is the same. Where the
file system can share blocks (btrfs, XFS), the copy shares them. An interrupted
local copy of one file begins anew.

Holes of local files are not sent, and are holes in the copy. What comes from a
host has no holes that could be seen; --sparse makes holes of its zeros.

Connections are made as ssh makes them: with the user's ssh_config, known_hosts,
agent and keys. Flags that scp has keep scp's letter and meaning. They may stand
before, between and after the operands; what follows -- is an operand.`

const examples = `  usftp cp big.iso host:
  usftp cp 'user@host:/var/log/*.gz' logs/
  usftp cp sftp://user@host:2222/srv/data.tar .
  usftp cp -r photos/ /mnt/backup
  mysqldump db | usftp cp - host:backup/db.sql
  usftp cp host:backup/db.sql - | less
  usftp cp -r --verify --manifest SHA256SUMS photos host:
  usftp cp -r --check-manifest SHA256SUMS host:photos .
  usftp cp -r old:/srv/www new:/srv`
