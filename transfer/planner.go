package transfer

import (
	"io/fs"

	"github.com/usftp/usftp/internal/endpoint"
)

// A planner decides what becomes of a tree: CopyTree copies it, Sync compares it with the target
// first, and Check with a list of hashes. The walk calls it, on many goroutines at once.
type planner interface {
	// file returns why a source that is a file cannot be used, nil if it is copied as by Copy.
	file() error

	// start is called before the walk, once the target is known.
	start() error

	// walkers returns how many directories are listed at once.
	walkers(from, to limits) int

	// enter makes a directory ready before it is listed, and leave ends that. ok is false if it is
	// not to be listed. Between the two, listed is called if all of it was.
	enter(d *directory) (leave func(), ok bool)
	listed(d *directory)

	// readIgnore gets what leaves out entries of a directory besides the tree's rules.
	readIgnore(d *directory) error

	// found reports whether an entry takes part. enters reports whether a directory is to be
	// walked, and makes room for it; wants, whether anything is to be done with a file or a link.
	// prepare does what that needs, and reports whether that was all.
	found(e *entry) bool
	enters(d *directory, e *entry) bool
	wants(e *entry) bool
	prepare(e *entry) (done bool)

	// vanished reports whether an error only means that the source has changed, and counts it.
	vanished(source string, err error) bool

	// backups returns where what an entry replaces is kept, nil if it is not. mayCommit fails if
	// nothing must be changed any more.
	backups(e *entry) *backups
	mayCommit() error

	// finish sets the attributes of a directory in which everything is done.
	finish(d *directory) error

	// rest is called when everything has been listed, conclude when all of that is done.
	rest()
	conclude()
}

// treeRules are what a planner wants of everybody else.
type treeRules struct {
	// apart is why the source and the target must not contain one another. mutual is set if neither
	// may, and otherwise only the target must not lie in the source.
	apart  error
	mutual bool

	partial bool   // not all of the source is walked
	judges  bool   // what limits the rate is found out
	counts  bool   // a large source is counted before all of it is found
	walkers int    // directories listed at once, where servers allow it; more over a long link
	last    Phase  // when all files have been copied, if anything is done then
	failed  string // what a summary says of entries that failed
}

// An executor carries out what a planner has decided. A run's executor changes the target; that of
// a dry run tells what would be changed. Nothing else knows which one it is, so a dry run tells
// what a run does, as far as that can be known without changing anything.
type executor interface {
	// makeAbove makes the directories above a tree's target. A dry run only finds out whether that
	// would fail.
	makeAbove(t *tree) error

	// makeTop makes the target of a tree on this machine.
	makeTop(name string, perm fs.FileMode) (made bool, err error)

	// root returns what changes below the target go through.
	root(r endpoint.Root) endpoint.Root

	// touch makes an empty file at the target, outside of the copy; remove is not nil if the file
	// may exist.
	touch(t *tree, name string) (remove func() error, err error)

	// note records in the journal that the target is being made, and openNotes what the run leaves.
	note(m treeMark) treeMark
	openNotes(t *tree)

	// hand gives an entry to those who carry out what is to be done with it. entering is called for
	// a directory that is made, and told before a file or a link is copied: if it returns true,
	// that is all. did sends the event of a change that was made.
	hand(w *walk, e *entry)
	entering(e *entry)
	told(e *entry) bool
	did(t *tree, e *Event)

	// single copies a source that is a file.
	single(c *fileTask) (Summary, error)
}
