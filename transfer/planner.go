package transfer

import (
	"io/fs"

	"github.com/usftp/usftp/internal/endpoint"
)

// A planner decides how a tree's entries are handled: CopyTree copies them, Sync compares them with
// the target first, Check with a list of hashes. The walk calls it, on many goroutines at once.
type planner interface {
	// file fails if a source that is a file cannot be used; nil means it is copied as by Copy.
	file() error

	// start is called before the walk, once the target is known.
	start() error

	// walkers returns how many directories are listed at once.
	walkers(from, to limits) int

	// enter prepares a directory for listing, and leave ends that. ok is false if it must not be
	// listed. Between the two, listed is called if all of the directory was listed.
	enter(d *directory) (leave func(), ok bool)
	listed(d *directory)

	// readIgnore reads rules that exclude entries of a directory besides the tree's.
	readIgnore(d *directory) error

	// found reports whether an entry takes part. enters reports whether to walk a directory, and makes
	// room for it; wants reports whether a file or a link needs work. prepare does the work needed
	// before copying, or instead, and reports whether that was all.
	found(e *entry) bool
	enters(d *directory, e *entry) bool
	wants(e *entry) bool
	prepare(e *entry) (done bool)

	// vanished reports whether an error only means that the source has changed, and counts it.
	vanished(source string, err error) bool

	// backups returns the place for the files that an entry replaces, nil if they are not kept.
	// mayCommit fails once nothing may be changed any more.
	backups(e *entry) *backups
	mayCommit() error

	// finish sets the attributes of a directory whose entries are done.
	finish(d *directory) error

	// rest is called once everything has been listed, conclude once all of it is done.
	rest()
	conclude()
}

// treeRules are a planner's settings for the rest of the engine.
type treeRules struct {
	// apart is the error if source and target contain one another. mutual is set if neither may
	// contain the other; otherwise only the target must not lie in the source.
	apart  error
	mutual bool

	partial bool   // not all of the source is walked
	judges  bool   // a sampler finds the bottleneck
	counts  bool   // a large source is counted before all of it is found
	walkers int    // directories listed at once, where servers allow it; more over a long link
	last    Phase  // the phase after all files have been copied, if any
	failed  string // how a summary describes entries that failed
}

// An executor carries out a planner's decisions. A run's executor changes the target; a dry run's
// reports the changes it would make. Nothing else knows which one it is, so a dry run reports a
// run's changes, as far as they can be known without changing anything.
type executor interface {
	// makeAbove makes the directories above a tree's target. A dry run only finds out whether that
	// would fail.
	makeAbove(t *tree) error

	// makeTop makes the target of a tree on this machine.
	makeTop(name string, perm fs.FileMode) (made bool, err error)

	// root returns the Root that changes below the target go through.
	root(r endpoint.Root) endpoint.Root

	// touch makes an empty file at the target, outside of the copy; remove is not nil if the file
	// may exist.
	touch(t *tree, name string) (remove func() error, err error)

	// note returns where the journal is told that the target is being made, and openNotes records the
	// run's token.
	note(m treeMark) treeMark
	openNotes(t *tree)

	// hand has an entry's plan carried out. told is called before a directory is made, or a file or a
	// link copied: if it returns true, that was all for a file or a link. did sends the event of a
	// change that was made.
	hand(w *walk, e *entry)
	told(e *entry) bool
	did(t *tree, e *Event)

	// single copies a source that is a file.
	single(c *fileTask) (Summary, error)
}
