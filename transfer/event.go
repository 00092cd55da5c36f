package transfer

import "time"

// Kind is what an event tells.
type Kind string

// The kinds of events.
const (
	Started  Kind = "started"  // Size is known, or -1
	Progress Kind = "progress" // Bytes have arrived so far
	// the connection was lost, and is made anew after Wait; Err and Message say why
	Retried Kind = "retried"
	Note    Kind = "note"   // Message is something that a person should know, and is no failure
	Done    Kind = "done"   // Bytes, Elapsed, Hash and Verified are final
	Failed  Kind = "failed" // Err and Message say why, and LeftBehind what is left

	// Those of trees. A tree's own Started, Progress and Ended events carry Totals, those of its
	// entries do not.
	Planned Kind = "planned" // a dry run would copy it
	Kept    Kind = "kept"    // it is there already; Hash
	Skipped Kind = "skipped" // Message says why it is not copied
	// Totals are final; Err and Message say what went wrong, if anything did
	Ended Kind = "ended"
)

// Event is something that has happened to a job. The fields that its kind does not name are zero.
type Event struct {
	Kind Kind      `json:"kind"`
	Time time.Time `json:"time"`
	Host string    `json:"host"`
	// of a relay, whose Host is the target's
	SourceHost string    `json:"source_host,omitempty"`
	Direction  Direction `json:"direction"`
	Source     string    `json:"source"`
	Target     string    `json:"target"`
	Size       int64     `json:"size"`
	Bytes      int64     `json:"bytes"`
	// of Bytes, those that an earlier job had copied; of progress and done
	Resumed    int64         `json:"resumed,omitempty"`
	Elapsed    time.Duration `json:"elapsed_ns,omitempty"`
	Wait       time.Duration `json:"wait_ns,omitempty"`
	Bound      Bound         `json:"bound,omitempty"` // what bound the rate, of done
	Message    string        `json:"message,omitempty"`
	LeftBehind string        `json:"left_behind,omitempty"`
	// of a file with a hash: the copy's path below the directory that was named as the target, with
	// slashes; of one that is checked: in the list
	Name     string       `json:"name,omitempty"`
	Hash     Hash         `json:"hash,omitzero"` // of the contents; as "sha256:HEX"
	Verified Verification `json:"verified,omitempty"`
	Err      error        `json:"-"`
	Tree     bool         `json:"tree,omitempty"`   // it is about a tree, or something in one
	Totals   *Totals      `json:"totals,omitempty"` // of the whole tree
}
