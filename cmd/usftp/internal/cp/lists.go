package cp

import (
	"errors"
	"fmt"

	"github.com/spf13/pflag"

	"github.com/usftp/usftp/checksum"
	"github.com/usftp/usftp/internal/cmdline"
	"github.com/usftp/usftp/internal/ui"
	"github.com/usftp/usftp/transfer"
)

// hashFlags are the flags of cp about hashes.
type hashFlags struct {
	hash, manifest, checkManifest string
}

func (h *hashFlags) register(f *pflag.FlagSet) {
	f.StringVar(&h.hash, "hash", "",
		"hash each file with `algorithm` sha256 or blake3 while copying it; --json and -v print the hash (default sha256 with --manifest or --check-manifest)")
	cmdline.Values(f, "hash", "sha256", "blake3")
	f.StringVar(&h.manifest, "manifest", "",
		"write the hashes of what was copied, or kept by -u or --resume, to `file`, as sha256sum (or b3sum) does, with paths relative to the target directory")
	f.StringVar(&h.checkManifest, "check-manifest", "",
		"before renaming, compare files with the list in `file`, also those that -u keeps; those that differ, or are listed and were not copied, fail")
}

func (h *hashFlags) check(set func(name string) bool, dryRun bool) error {
	if set("manifest") && h.manifest == "" || set("check-manifest") && h.checkManifest == "" {
		return errors.New("--manifest and --check-manifest need a file")
	}
	if set("hash") {
		if _, err := checksum.ParseAlgorithm(h.hash); err != nil {
			return fmt.Errorf("--hash: %w", err)
		}
	}
	if h.manifest == "-" || h.checkManifest == "-" {
		return errors.New("--manifest and --check-manifest need a file, not -: use ./- for a file of that name, or /dev/stdout")
	}
	if dryRun && (h.manifest != "" || h.checkManifest != "") {
		return errors.New("--manifest and --check-manifest cannot be used with --dry-run, which copies nothing")
	}
	return nil
}

// algorithm returns the algorithm for hashing files, "" if they are not hashed. The default for a
// list is SHA-256: every system has a program that checks it, and every host that hashes files
// knows it.
func (h *hashFlags) algorithm() checksum.Algorithm {
	if h.hash == "" && (h.manifest != "" || h.checkManifest != "") {
		return checksum.SHA256
	}
	return checksum.Algorithm(h.hash)
}

// lists are the list to write and the list to compare with, each nil if there is none.
type lists struct {
	manifest *checksum.Writer
	name     string // of the list to compare with
	check    *checksum.List
}

// open opens the lists before the first file is copied.
func (h *hashFlags) open() (l lists, err error) {
	if h.checkManifest != "" {
		l.name = h.checkManifest
		if l.check, err = checksum.Open(h.checkManifest, h.algorithm()); err != nil {
			return l, fmt.Errorf("cannot use the list of hashes: %w", err)
		}
	}
	if h.manifest != "" {
		if l.manifest, err = checksum.Create(h.manifest); err != nil {
			l.close()
			return l, fmt.Errorf("cannot write the list of hashes %s: %s", h.manifest,
				ui.ReasonOf(err))
		}
	}
	return l, nil
}

func (l *lists) close() {
	l.check.Close()
	if l.manifest != nil {
		l.manifest.Discard()
	}
}

// listen adds the copied files to the list, and passes their events on to another listener.
func (l *lists) listen(next func(transfer.Event)) func(transfer.Event) {
	if l.manifest == nil {
		return next
	}
	return func(e transfer.Event) {
		if !e.Hash.IsZero() { // it failed only if its source could not be removed
			l.manifest.Add(e.Name, e.Hash) // an error is returned again at the end
		}
		next(e)
	}
}

// finishLists reports listed files that were not copied, and completes the list being written, even
// if some files failed. If nothing was copied, an old list stays.
func (c *Copier) finishLists() {
	l := &c.lists
	if c.Ctx.Err() == nil {
		for name, err := range l.check.Missing() {
			if err == nil {
				err = fmt.Errorf("%s is in %s but was not copied", name, l.name)
			}
			c.Fail(err)
		}
	}
	if l.manifest == nil || l.manifest.Added() == 0 && c.Code != ui.ExitOK {
		return
	}
	if err := l.manifest.Commit(); err != nil {
		c.Fail(fmt.Errorf("cannot write the list of hashes: %w", err))
	}
}
