package transfer

import "sync/atomic"

// habits are what a host has shown since it was logged in to, over all connections, so that
// thousands of files need not each find it out, and say it.
type habits struct {
	apart       atomic.Bool // what one handle writes another does not see
	noTemporary atomic.Bool // it takes no file of such a name where it takes one of the target's
	noRename    atomic.Bool // it gives no file another name
	said        atomic.Bool
}

// mayReplace tells whether a file can be written under a temporary name and renamed, as far as it
// is known: of the host, and of the directory that the target lies in. Who insists on it is to see
// it fail.
func (r *run) mayReplace() bool {
	switch {
	case r.Options.Placement == Atomic:
		return true
	case r.Options.Placement == InPlace:
		return false
	case r.line.habits.noTemporary.Load(), r.line.habits.noRename.Load():
		return false
	}
	return r.item == nil || !r.item.dir.noTemporary.Load()
}

// noTemporary remembers that no temporary file could be created where the target itself could.
// Where the target is new, the same right was needed for both, so it is the name that the host does
// not take; else the directory may be one that takes no new names.
func (r *run) noTemporary(isNew bool) {
	if isNew {
		r.line.habits.noTemporary.Store(true)
	} else if r.item != nil {
		r.item.dir.noTemporary.Store(true)
	}
	r.sayInPlace("no temporary file can be created beside the target: it is written in place")
}

// noRename remembers that the host has refused to give a file a name that nothing had. What it
// refuses for a name that something has may be that file's own matter.
func (r *run) noRename(isNew bool) {
	if !isNew || r.Options.Placement == Atomic {
		return
	}
	r.line.habits.noRename.Store(true)
	if r.item != nil {
		r.sayInPlace("the host does not rename files: those that follow are written in place")
	}
}

// sayInPlace says something once, of all files of which it holds.
func (r *run) sayInPlace(why string) {
	if r.line.habits.said.Swap(true) {
		return
	}
	if r.item != nil {
		why += " (this is said once for all files of the tree)"
	}
	r.note(why)
}
