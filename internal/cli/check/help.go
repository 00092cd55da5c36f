package check

const long = `Compares the files below a directory, of a host or of this machine, with a list of
hashes as sha256sum (or b3sum) writes it, and copies nothing. DIR is a local
directory, host:path or any other form that cp takes; names in the list begin there.

A host that hashes files is asked for their hashes, many at once. Else they are read
through, which takes as long as to copy them, and nothing is kept of them.

What differs (FAILED), cannot be read (FAILED to read) or is missing is written to
standard output, with -v what is right (OK) too. How many files are there and not in
the list is said at the end; with -v or --strict which, and with --strict they have
failed. A name in the list may lead through symbolic links; other links are passed
over. A list with a name that leads elsewhere (absolute, or with ..) is refused.

Control characters of names are written as \x1b and the like.`

const examples = `  usftp check SHA256SUMS host:photos
  usftp check --strict SHA256SUMS user@host:/srv/www
  usftp check --hash blake3 B3SUMS /mnt/backup/photos`
