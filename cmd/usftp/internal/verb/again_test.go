package verb

import (
	"errors"
	"fmt"
	"io"
	"net"
	"testing"

	"github.com/usftp/usftp"
)

// TestSteadily: a verb that is run again prints what it has not printed, and fails if the host has
// something else now.
func TestSteadily(t *testing.T) {
	t.Parallel()
	lost := fmt.Errorf("the link broke: %w", net.ErrClosed)
	failed := errors.New("failed")
	type run struct {
		prints string
		err    error
	}
	for name, test := range map[string]struct {
		changes bool
		runs    []run
		want    string
		err     error
	}{
		"no loss":         {false, []run{{"abc", nil}}, "abc", nil},
		"failure":         {false, []run{{"abc", failed}}, "abc", failed},
		"one loss":        {false, []run{{"ab", lost}, {"abc", nil}}, "abc", nil},
		"earlier loss":    {false, []run{{"abc", lost}, {"a", lost}, {"abcd", nil}}, "abcd", nil},
		"nothing printed": {false, []run{{"", lost}, {"", lost}, {"abc", failed}}, "abc", failed},
		"other":           {false, []run{{"abc", lost}, {"abd and more", nil}}, "abc", errChanged},
		"less":            {false, []run{{"abc", lost}, {"ab", nil}}, "abc", errChanged},
		"other later": {false, []run{{"abc", lost}, {"abcd", lost}, {"abce", nil}}, "abcd",
			errChanged},
		"gives up": {false, []run{{"ab", lost}, {"ab", lost}, {"ab", lost}, {"ab", lost}},
			"ab", lost},
		"changes": {true, []run{{"ab", lost}, {"c", nil}}, "abc", nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(startServer(t, t.TempDir()))
			fresh, without := startServer(t, t.TempDir()), 0
			r.Renew = func(err error, progress bool) *usftp.Client {
				if without++; progress {
					without = 0
				}
				if err != lost || without > 2 {
					return nil
				}
				return fresh
			}
			n := 0
			err := r.Steadily(test.changes, func() error {
				this := test.runs[n]
				if again := n > 0; r.Again != again || again && r.Client != fresh {
					t.Errorf("run %d: again is %v", n, r.Again)
				}
				n++
				r.Env.Say("said once")
				for _, c := range this.prints {
					if _, err := io.WriteString(r.Env.Out, string(c)); err != nil {
						return err
					}
				}
				return this.err
			})
			out, said := r.take()
			if out != test.want || err != test.err || said != "said once" || r.Again {
				t.Errorf("it printed %q and said %q, %v; want %q, %v", out, said, err, test.want,
					test.err)
			}
			if n != len(test.runs) {
				t.Errorf("%d runs, want %d", n, len(test.runs))
			}
		})
	}
}
