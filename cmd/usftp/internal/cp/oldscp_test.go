package cp

import (
	"cmp"
	"context"
	"errors"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/usftp/usftp/internal/scpclient"
)

// A host answers keepalives, or does not.
type host struct {
	err error // of Keepalive; nil means that nothing comes
}

var errAnswered = errors.New("answered")

func (h host) Host() string { return "h" }
func (h host) Keepalive(ctx context.Context) error {
	switch h.err {
	case nil:
		<-ctx.Done()
		return ctx.Err()
	case errAnswered:
		return nil
	}
	return h.err
}

// TestWhileAlive: a copy ends if nothing moves and the host does not answer, and only then.
func TestWhileAlive(t *testing.T) {
	t.Parallel()
	const long = 2 * mostIdle
	for name, test := range map[string]struct {
		host  host
		moves bool
		ends  bool
		takes time.Duration // 200 s by default
	}{
		"silent":         {ends: true},
		"moving":         {moves: true},
		"answers":        {host: host{errAnswered}},
		"cannot tell":    {host: host{errors.ErrUnsupported}},
		"gone":           {host: host{net.ErrClosed}, ends: true},
		"answers only":   {host: host{errAnswered}, ends: true, takes: long},
		"says nothing":   {host: host{errors.ErrUnsupported}, ends: true, takes: long},
		"goes on moving": {host: host{errAnswered}, moves: true, takes: long},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var moved atomic.Int64
				ctx, stop := whileAlive(t.Context(), test.host, &moved)
				defer stop()
				for range cmp.Or(test.takes, 10*aliveInterval) / (aliveInterval / 2) {
					time.Sleep(aliveInterval / 2)
					if test.moves {
						moved.Add(1)
					}
				}
				if ended := ctx.Err() != nil; ended != test.ends || ended &&
					(!errors.Is(context.Cause(ctx), net.ErrClosed) ||
						strings.Contains(context.Cause(ctx).Error(), "closed")) {
					t.Errorf("it has ended: %v, %v", ended, context.Cause(ctx))
				}
			})
		})
	}
}

// TestShellWord: for the shell on the host, a path is one word and nothing else.
func TestShellWord(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"/a/b-c_d.txt": "/a/b-c_d.txt", "flash:/x": "flash:/x", "ünï": "ünï", "-rf": "./-rf",
		"a b": `a\ b`, "$(id);x": `\$\(id\)\;x`, "`id`": "\\`id\\`", "it's": `it\'s`, "*.gz": "*.gz",
		`a\ b`: `a\ b`, `\*`: `\*`, "~/x": "~/x", "a~": `a\~`, "{a,b}": `\{a,b\}`, `"x"`: `\"x\"`,
		"a|b&c>d<e#f": `a\|b\&c\>d\<e\#f`, `end\`: `end\\`,
	} {
		if got, err := shellWord(name, true); err != nil || got != want {
			t.Errorf("%q becomes %q, %v, want %q", name, got, err, want)
		}
	}
	for name, want := range map[string]string{"*.gz": `\*.gz`, `a\ b`: `a\\\ b`, "[x]?": `\[x\]\?`} {
		if got, err := shellWord(name, false); err != nil || got != want {
			t.Errorf("the target %q becomes %q, %v, want %q", name, got, err, want)
		}
	}
	for _, name := range []string{"a\nb", "a\x00", "\\\n", "\x7f", "a\tb"} {
		if got, err := shellWord(name, true); err == nil {
			t.Errorf("%q becomes %q", name, got)
		}
	}
}

// TestWanted: what a host may send follows from what was typed.
func TestWanted(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for typed, want := range map[string]scpclient.Want{
		"/a/b":     {Pattern: "b"},
		"b/":       {Pattern: "b"},
		"a/*.gz":   {Pattern: "*.gz", Several: true},
		"[!a]x":    {Pattern: "[^a]x", Several: true},
		`\*`:       {Pattern: `\*`},
		`sp\ ace`:  {Pattern: "sp ace"},
		"d*/file":  {Pattern: "file", Several: true},
		".":        {Pattern: ".", Contents: true},
		"/":        {Pattern: "/", Contents: true},
		"a/..":     {Pattern: "..", Contents: true},
		"~":        {Pattern: "~", Contents: true},
		"~me/":     {Pattern: "~me", Contents: true},
		"~me/file": {Pattern: "file"},
	} {
		got, err := wanted(typed, dir, false)
		if err != nil {
			t.Fatal(err)
		}
		got.Root.Close()
		if got.Pattern != want.Pattern && !want.Contents || got.Several != want.Several ||
			got.Contents != want.Contents || got.Name != "" || got.Dir != dir || got.Source != typed {
			t.Errorf("%q becomes %+v, want %+v", typed, got, want)
		}
	}
}
