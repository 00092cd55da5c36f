package check

const long = `Compares the files in a directory, local or on a host, with a list of hashes as
sha256sum or b3sum writes it. Nothing is copied. DIR is a local directory, host:path
or anything else that cp accepts; names in the list are relative to it. After cp -r
--manifest LIST photos host: they begin with photos/, and DIR is host: (not host:photos).

The host hashes the files if it can; otherwise usftp reads them, which takes as long
as copying them.

Files that differ (FAILED), cannot be read (FAILED to read) or are missing are
listed on standard output; -v also lists those that match (OK). The result is summed
up on standard error, except with -q. Files that are not in the list are counted
there; -v and --strict list them, and --strict counts them as failures. A name in the
list may lead through symbolic links; other links are ignored. A list with a name that
leads out of DIR (absolute, or with ..) is refused.

Control characters in names are escaped, as in \x1b.`

const examples = `  usftp check SHA256SUMS host:
  usftp check --strict SHA256SUMS user@host:/srv/www
  usftp check --hash blake3 B3SUMS /mnt/backup/photos`
