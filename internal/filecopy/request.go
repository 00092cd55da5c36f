// Package filecopy copies one file from one endpoint to another: placed, resumed, sent as its
// differences or over several connections, hashed, verified, and given its name, in as many
// attempts as it takes. It knows no tree and no user: a [Request] names the file, a [Reporter]
// follows the copy, and a [Result] is its outcome.
package filecopy

import (
	"context"
	"io/fs"
	"sync"
	"sync/atomic"
	"time"

	"github.com/usftp/usftp/checksum"
	"github.com/usftp/usftp/internal/endpoint"
	"github.com/usftp/usftp/internal/journal"
	"github.com/usftp/usftp/internal/localfs"
	"github.com/usftp/usftp/internal/pace"
)

// A Run is the state that all files of one call share. It must not change once the first of them is
// copied.
type Run struct {
	Ctx        context.Context
	Options    Options
	Rules      Rules
	SourcePath string // as the user named it
	TargetHost string
	Token      localfs.TempToken // for all temporary names
	Src        endpoint.Place
	Dst        Target
	Limiter    *pace.Limiter // nil without a limit
	Budget     *Budget       // of a tree's files; nil for a single file

	// Beneath opens a file of a tree on this machine, and follows no link below the tree's top.
	Beneath func(rel string) (endpoint.Reader, error)
	*Common
}

// Rules are the differences between kinds of runs.
type Rules struct {
	Relinks bool   // files with several names are replaced, not written in place
	Keeps   bool   // Options.Resume keeps files of the source's size and time
	Resume  string // advice in errors about resuming
	InPlace string // advice in errors about writing in place, "" if none
}

// Common is the state that the files of a run keep for one another.
type Common struct {
	Pauses   *pace.Pauses
	Work     sync.WaitGroup // goroutines that end soon after the context
	halfways journal.Halfways
	oldTimes sync.Once // warns that times cannot be set

	// held by the file that uses two hosts, if one of them can have only one file open: see
	// ends.connect
	turn sync.Mutex
}

// A Request says which file to copy, and how. It must not change once it is made.
type Request struct {
	*Run
	Reporter
	Container

	Source, Target string           // paths; a single file's target as the user gave it
	Rel            string           // path below the source of a tree
	Listed         *endpoint.Info   // by the directory of a tree; nil for a single file
	How            endpoint.Opening // of the source
	Small          bool             // it is sent in one piece
	Absent         bool             // the target's name is free
	Repeats        bool             // it replaces only files that an earlier run made
	Began          time.Time
}

// A Container is the directory of a tree in which a file gets its name.
type Container interface {
	Paths() (root, dir string) // of the tree's target; of the directory, below that
	Findings() *Findings       // of the files of the directory, for each other
	BehindLink() bool          // it cannot be reached without following a link
	Unmoved() error            // fails unless it is still the same directory
	MayCommit() error          // fails if changes are no longer allowed
	KeepsOld() bool            // replaced files are kept
	Exchange(replace func(freed bool) error) error
	Aside(mode fs.FileMode, remove func() error) (freed bool, err error)
}

// Findings are facts that the files of a directory find out for each other.
type Findings struct {
	noTemporary atomic.Bool // it takes no temporary files
	seen        seenDir     // by the helper
}

// Options are the options of package transfer that concern single files, described there.
type Options struct {
	Placement Placement
	Destination
	endpoint.Attributes
	Contents
	Delta     Delta
	Sync      bool
	Resume    bool
	Verify    bool
	Hash      checksum.Algorithm
	List      *checksum.List
	Journal   string
	RateLimit int64
}

// Destination and Contents have the fields that they have in package transfer.
type (
	Destination struct{ NoTargetDirectory, MakePath, ReplaceLink, Update bool }
	Contents    struct{ Sparse, Changing, RemoveSource bool }
)

// Placement and Delta have the values that they have in package transfer.
type Placement int

const (
	PlaceAuto Placement = iota
	PlaceDirect
	PlaceAtomic
)

type Delta int

const (
	DeltaNever Delta = iota
	DeltaAuto
	DeltaAlways
)
