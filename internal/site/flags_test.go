package site

import (
	"testing"
	"time"

	"github.com/spf13/pflag"
)

// Flags take precedence over the file, even those that are given with their default.
func TestServeFlagsOverride(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{nil, {"--grace=30s", "--log-format=text"}} {
		var s Flags
		f := pflag.NewFlagSet("serve", pflag.ContinueOnError)
		s.Register(f)
		if err := f.Parse(args); err != nil {
			t.Fatal(err)
		}
		made := &Settings{Grace: time.Minute, LogFormat: "json"}
		s.Override(made)
		if given := args != nil; given != (made.Grace == 30*time.Second) ||
			given != (made.LogFormat == "text") {
			t.Errorf("%q make %v and %s", args, made.Grace, made.LogFormat)
		}
	}
}
