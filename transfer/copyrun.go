package transfer

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"path/filepath"
	"strings"
	"sync"

	"github.com/usftp/usftp/internal/localfs"
	"github.com/usftp/usftp/internal/pace"
	"github.com/usftp/usftp/pool"
)

// A copyRun is what all files of one Copy, CopyTree, Sync or Check share. Nobody changes it once the
// first of them is copied.
type copyRun struct {
	ctx     context.Context
	options Options
	route   Route
	token   localfs.TempToken // for all temporary names
	src     end
	dst     target
	limiter *pace.Limiter         // nil without a limit
	once    func(*fileCopy) error // one attempt at a file
	op      op                    // for messages
	rules   treeRules
	budget  *budget // of a tree's files; nil for a single file
	*common
}

// common is what the files of a run keep for one another.
type common struct {
	pauses   *pace.Pauses
	halfways halfways
	oldTimes sync.Once // that times cannot be set was reported

	// held by the file that uses two hosts, if one of them can have one file open: see ends.connect
	turn sync.Mutex
}

// conns returns the run's connections, the target's first.
func (r *copyRun) conns() []*pool.Conn { return present(r.dst.conn(), r.src.conn()) }

// present returns the target's and the source's connection, without nil ones, and once if they are
// the same.
func present[T any](to, from *T) (all []*T) {
	if to != nil {
		all = append(all, to)
	}
	if from != nil && from != to {
		all = append(all, from)
	}
	return all
}

// journalKey returns the name of a copy's file in the journal, "" if no journal is kept or an
// endpoint is a stream.
func (r *copyRun) journalKey(kind, source, target string) string {
	from, source, isFile := r.src.Identity(source)
	to, target, isToFile := r.dst.Identity(target)
	if r.options.Journal == "" || !isFile || !isToFile {
		return ""
	}
	sum := sha256.Sum256([]byte(strings.Join([]string{kind, from, source, to, target}, "\x00")))
	return filepath.Join(r.options.Journal, hex.EncodeToString(sum[:16])+"."+kind+".json")
}
