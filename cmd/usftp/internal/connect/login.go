package connect

import (
	"context"
	"errors"
	"strings"

	"github.com/usftp/usftp/dial"
	"github.com/usftp/usftp/pool"
)

// Login is pool.Connect, except that errors advise flags instead of the library's options.
func Login(ctx context.Context, t dial.Target, config pool.ConnectConfig) (*pool.Login, error) {
	login, err := pool.Connect(ctx, t, config)
	return login, Advised(err)
}

// Advised returns an error of package dial that advises flags instead of the library's options.
func Advised(err error) error {
	if text := "(" + dial.AdviceSSH + ")"; errors.As(err, new(*dial.UnsupportedError)) &&
		strings.HasSuffix(err.Error(), text) {
		return Worded(err, strings.TrimSuffix(err.Error(), text)+"(--ssh)")
	}
	return err
}

// Worded returns an error with another text.
func Worded(err error, text string) error { return &advised{err, text} }

// An advised is an error in the command's words.
type advised struct {
	error
	text string
}

func (e *advised) Error() string { return e.text }
func (e *advised) Unwrap() error { return e.error }
