package transfer

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path"
	"path/filepath"
	"strings"
)

// A copy of a tree makes its target, and a target that is there gets the copy in it: so the same
// command that was interrupted means another place when it is given once more. That the target is
// the copy itself is noted in the journal, from before it is made until all is done.

// begunFile returns the file of the note, "" where no journal is kept.
func (t *treeRun) begunFile() string {
	if t.Options.Journal == "" || t.TreeOptions.DryRun {
		return ""
	}
	from, to := path.Clean(t.Source), path.Clean(t.Target)
	var err error
	if !t.Direction.fromHost() {
		from, err = filepath.Abs(t.Source)
	}
	if err == nil && !t.Direction.toHost() {
		to, err = filepath.Abs(t.Target)
	}
	if err != nil {
		return ""
	}
	sum := sha256.Sum256([]byte(strings.Join([]string{"tree", t.From.identity(), t.Host.identity(),
		t.Direction.String(), from, to}, "\x00")))
	return filepath.Join(t.Options.Journal, hex.EncodeToString(sum[:16])+".tree.json")
}

// goesOn tells whether the target is what an interrupted run has made, and is to be gone on from.
func (t *treeRun) goesOn() bool {
	name := t.begunFile()
	if name == "" || !t.Options.Resume {
		return false
	}
	if _, err := os.Lstat(name); err != nil {
		return false
	}
	f, err := openOurs(name)
	if err != nil {
		return false
	}
	f.Close()
	return true
}

// noteBegun notes that the target is to be the copy itself.
func (t *treeRun) noteBegun() {
	if name := t.begunFile(); name != "" && os.MkdirAll(t.Options.Journal, 0o700) == nil {
		sweepJournal(t.Options.Journal)
		if f, err := openOurs(name); err == nil {
			f.Close() // that it is there says all
		}
	}
}

// forgetBegun is for when the copy is complete, or lies in the target.
func (t *treeRun) forgetBegun() {
	if name := t.begunFile(); name != "" {
		os.Remove(name)
	}
}
