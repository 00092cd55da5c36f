package transfer

import (
	"context"
	"io/fs"
	"sync"
	"time"

	"github.com/usftp/usftp/internal/endpoint"
	"github.com/usftp/usftp/internal/localfs"
	"github.com/usftp/usftp/internal/pace"
	"github.com/usftp/usftp/pool"
)

// A copyRun is what all files of one Copy, CopyTree, Sync or Check share. Nobody changes it once
// the first of them is copied.
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
	oldTimes sync.Once      // that times cannot be set was reported
	work     sync.WaitGroup // goroutines that end soon after the context

	// held by the file that uses two hosts, if one of them can have one file open: see ends.connect
	turn sync.Mutex
}

// A request says which file to copy, and how. Nobody writes to it after it was made.
type request struct {
	*copyRun
	reporter
	container

	source, target string           // paths; a single file's target as the user gave it
	name           string           // path within the copy, by which lists know it
	listed         *endpoint.Info   // by the directory of a tree; nil for a single file
	how            endpoint.Opening // of the source
	small          bool             // it is sent in one piece
	absent         bool             // nothing has the target's name
	repeats        bool             // it replaces only what an earlier run made
	began          time.Time
}

// A reporter is told what becomes of a file while it is copied.
type reporter interface {
	say(kind Kind, message string)
	retried(a pool.Attempt)
	resumed(bytes int64) // which an earlier run left
	leaves()             // a temporary file, perhaps

	// report follows how far the file has come until stop is called. finishing does so once all of
	// it has arrived.
	report(position func() int64) (stop func())
	finishing() (stop func())
}

// A container is the directory of a tree in which a file gets its name.
type container interface {
	paths() (root, dir string) // of the tree's target; of the directory, below that
	rel() string               // of the file, below the target
	found() *pooled            // by the files of the directory, for each other
	behindLink() bool          // it cannot be reached without following a link
	unmoved() error            // fails unless it is what it was
	mayCommit() error          // fails if nothing may be changed any more
	keepsOld() bool            // what is replaced is kept
	exchange(replace func(freed bool) error) error
	aside(mode fs.FileMode, remove func() error) (freed bool, err error)
}
