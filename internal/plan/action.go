package plan

// An Action is what is done with an entry, and why.
type Action struct {
	Do  Verb
	Why Reason

	// Untimed is set if the times differ and that does not count, since the host does not set them.
	Untimed bool
}

// A Verb says what is done with an entry.
type Verb uint8

const (
	Skip     Verb = iota // nothing, although it may differ
	Same                 // nothing: it is equal
	Compare              // what listings do not show is compared, and then decided
	Copy                 // a file or a link is copied
	Postpone             // it is, once the directory in its way has been deleted
	SetAttrs             // only its attributes are set
	Enter                // a directory that is there is compared
	Make                 // a directory is made
	Fail                 // it is an error
)

// A Reason is why an entry is copied, changed or left out.
type Reason uint8

const (
	_    Reason = iota
	New         // missing from the target
	Type        // of another type there
	Size
	Time
	Hash
	Leads // the link leads elsewhere
	Mode
	Owner
	Touch // only the times differ: the contents were compared

	// Of what is left out, or fails:

	Unselected // by the user, with an Only
	Older      // than the target's
	Young
	UnderWay // the temporary file of another copy
	Unlisted // not in the list that a Check compares with
	Missing  // in that list, and not there
	NoFile   // in that list, and something else than a file
)
