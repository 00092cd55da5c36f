package plan

// An Action is the treatment of an entry, and the reason for it.
type Action struct {
	Do  Verb
	Why Reason

	// Untimed is set if the times differ and that is ignored, since the host does not set them.
	Untimed bool
}

// A Verb is the treatment of an entry.
type Verb uint8

const (
	Skip     Verb = iota // do nothing, although the entry may differ
	Same                 // do nothing: the entry is equal
	Compare              // compare the facts that listings do not show, then decide
	Copy                 // copy a file or a link
	Postpone             // copy it once the directory in its way has been deleted
	SetAttrs             // set only the attributes
	Enter                // compare an existing directory
	Make                 // make a directory
	Fail                 // report an error
)

// A Reason says why an entry is copied, changed or left out.
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

	// Reasons for leaving an entry out, or for failing:

	Unselected // by the user, with an Only
	Older      // than the target's
	Young
	UnderWay // the temporary file of another copy
	Unlisted // not in the list that a Check compares with
	Missing  // in that list, but absent
	NoFile   // in that list, but not a file
)
