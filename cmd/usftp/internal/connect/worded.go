package connect

// Worded returns an error with another text.
func Worded(err error, text string) error { return &worded{err, text} }

type worded struct {
	error
	text string
}

func (e *worded) Error() string { return e.text }
func (e *worded) Unwrap() error { return e.error }
