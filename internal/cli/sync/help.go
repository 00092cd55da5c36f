package sync

const long = `Makes the directory DST equal to the directory SRC: what SRC contains becomes what DST
contains, whether or not a path ends in a slash. Each is a local directory, host:path
or anything else that cp accepts. DST is created if it does not exist.

Files of the same size and modification time count as equal; the rest is copied as cp
copies it, under a temporary name first. Permissions, times and symbolic links are made
equal too.

The summary says how many files were copied and how many were equal.`

const examples = `  usftp sync site host:/var/www
  usftp sync -n -v host:photos photos
  usftp sync --checksum a:data b:data
  usftp sync --hosts web1,web2,web3 site :/var/www`
