package transfer

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// mark is what an interrupted job has left, so that a later one can go on from there.
type mark struct {
	Temporary  string    `json:"temporary"` // its path, on the host or on this machine
	Bytes      int64     `json:"bytes"`     // that arrived without a gap
	Synced     bool      `json:"synced"`    // they are on the disk
	SourceSize int64     `json:"source_size"`
	SourceTime time.Time `json:"source_time"`
	SourceID   string    `json:"source_id"` // of the file itself, where it has one
}

// journalAge is how long marks are kept. Whoever has not gone on by then will not.
const journalAge = 30 * 24 * time.Hour

// journalFile returns the file of the job's mark, "" where no journal is kept. What makes two jobs the same is in its name.
func (r *run) journalFile(target string) string {
	if r.Options.Journal == "" || r.Reader != nil || r.Writer != nil {
		return ""
	}
	local, remote := r.Source, target
	if r.Direction == Download {
		local, remote = target, r.Source
	}
	local, err := filepath.Abs(local)
	if err != nil {
		return ""
	}
	identity := r.Host.Identity
	if identity == "" {
		identity = r.Host.Name
	}
	sum := sha256.Sum256([]byte(strings.Join([]string{identity, r.Direction.String(), local, remote}, "\x00")))
	return filepath.Join(r.Options.Journal, hex.EncodeToString(sum[:16])+".json")
}

// loadMark returns what an earlier run has left, nil where nothing is known.
func (r *run) loadMark(target string) *mark {
	if r.left != nil {
		return r.left
	}
	name := r.journalFile(target)
	if name == "" {
		return nil
	}
	data, err := os.ReadFile(name)
	var m mark
	if err != nil || json.Unmarshal(data, &m) != nil || m.Bytes <= 0 || m.Temporary == "" {
		return nil
	}
	return &m
}

// saveMark keeps a mark. It says whether a later run will find it.
func (r *run) saveMark(target string, m mark) bool {
	r.left = &m
	name := r.journalFile(target)
	data, err := json.Marshal(m)
	if name == "" || err != nil || os.MkdirAll(filepath.Dir(name), 0o700) != nil {
		return false
	}
	r.sweepJournal()
	temporary := temporaryName(filepath.Base(name))
	temporary = filepath.Join(filepath.Dir(name), temporary)
	if os.WriteFile(temporary, data, 0o600) != nil || os.Rename(temporary, name) != nil {
		os.Remove(temporary)
		return false
	}
	return true
}

// dropMark forgets what an earlier run has left.
func (r *run) dropMark(target string) {
	r.left = nil
	if name := r.journalFile(target); name != "" {
		os.Remove(name)
	}
}

// sweepJournal removes marks that nobody has come back to.
func (r *run) sweepJournal() {
	entries, _ := os.ReadDir(r.Options.Journal)
	for _, e := range entries {
		if info, err := e.Info(); err == nil && time.Since(info.ModTime()) > journalAge && strings.HasSuffix(e.Name(), ".json") {
			os.Remove(filepath.Join(r.Options.Journal, e.Name()))
		}
	}
}
