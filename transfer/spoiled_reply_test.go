package transfer_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/internal/soak"
	"github.com/usftp/usftp/pool"
	"github.com/usftp/usftp/sftptest"
	"github.com/usftp/usftp/transfer"
	"github.com/usftp/usftp/wire"
)

// spoiled is a way to spoil one reply of a server.
type spoiled struct {
	do      sftptest.Action
	cuts    bool // the connection ends: with retries everything arrives
	unknown bool // what the reply claims may be true of another state
	unmade  bool // a file or handle that nobody knows about may exist
}

func spoilings(i int) []spoiled {
	return []spoiled{
		{do: sftptest.Hangup(), cuts: true},
		{do: sftptest.Truncate(0), cuts: true},
		{do: sftptest.Truncate(7), cuts: true},
		{do: sftptest.LastReply(), cuts: true},
		{do: sftptest.Silence(), cuts: true},
		{do: sftptest.UnknownID(), cuts: true},
		{do: sftptest.Length(1 << 31)},
		{do: sftptest.Length(0)},
		{do: sftptest.ZeroData()},
		{do: sftptest.NoNames()},
		{do: sftptest.ReplyType(wire.TypeAttrs)},
		{do: sftptest.ReplyType(wire.TypeHandle)},
		{do: sftptest.ReplyType(wire.TypeVersion)},
		{do: sftptest.ReplyType(wire.TypeExtendedReply)},
		{do: sftptest.Refuse(wire.Failure, "no")},
		{do: sftptest.Refuse(wire.PermissionDenied, "no")},
		{do: sftptest.Refuse(wire.NoSuchFile, "no")},
		{do: sftptest.Refuse(wire.OpUnsupported, "no")},
		{do: sftptest.Refuse(wire.EOF, "no"), unknown: true},
		{do: sftptest.Fail(wire.Failure, "done, and yet no"), unmade: true},
		{do: sftptest.Repeat()},
		{do: sftptest.Garble(uint64(i)), unknown: true},
	}
}

// TestEveryReplySpoiled: while a tree is copied, one of the server's replies is spoiled, each in
// turn and in many ways. The copy ends. If it reports that everything was copied, it was. If
// connections are replaced, a cut costs nothing.
func TestEveryReplySpoiled(t *testing.T) {
	for _, side := range []string{"upload", "download", "relay's source", "relay's target"} {
		for _, retries := range []int{0, 3} {
			for _, ordered := range []bool{true, false} {
				t.Run(fmt.Sprintf("%s, %d retries, in order %v", side, retries, ordered),
					func(t *testing.T) {
						t.Parallel()
						spoilEach(t, side, retries, ordered)
					})
			}
		}
	}
}

// spoilEach continues until there is no further reply.
func spoilEach(t *testing.T, side string, retries int, ordered bool) {
	for i, more := 0, true; more; i++ {
		more = false
		for j, s := range spoilings(i) {
			if (i+j+retries)%sweepEvery != 0 {
				continue
			}
			t.Run(fmt.Sprintf("reply %d, %v", i, s.do), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					more = spoil(t, side, retries, ordered, i, s) || more
				})
			})
		}
	}
}

// sweepEvery selects one case in so many. All of them take a minute, too long for every day.
var sweepEvery = soak.Pick(41, 11)

// spoiledFiles are what is copied: files in one piece, without any, and in several.
var spoiledFiles = map[string][]byte{"a/small": random(3000), "a/empty": nil,
	"large": random(600_000), "b/c/last": random(77)}

// spoil returns false if there was no such reply.
func spoil(t *testing.T, side string, retries int, ordered bool, i int, s spoiled) (hit bool) {
	script := sftptest.Script{}
	asked := 0
	// a stream that was cut may still be served beside its replacement
	var mu sync.Mutex
	script.Intercept = func(r sftptest.Request) []sftptest.Action {
		mu.Lock()
		defer mu.Unlock()
		if r.Type == wire.TypeInit {
			return nil
		}
		asked++
		if asked == i+1 {
			hit = true
			s.unmade = s.unmade || r.Type == wire.TypeClose
			return []sftptest.Action{s.do}
		}
		return nil
	}
	dir := t.TempDir()
	host := func(name string, script sftptest.Script) (pool.Host, *sftptest.Scripted) {
		server := sftptest.NewScripted(script)
		t.Cleanup(func() { server.Close() })
		return redialed(t, name, func() (*usftp.Client, error) {
			end := server.Dial(sftptest.LinkConfig{ToServer: time.Millisecond,
				ToClient: time.Millisecond})
			options := []usftp.ClientOption{usftp.WithKeepalive(func(context.Context) error {
				return errors.New("nobody is there")
			})}
			if ordered {
				options = append(options, inOrder)
			}
			return usftp.NewClientPipe(end, end, options...)
		}), server
	}
	files := spoiledFiles
	tree := treeJob{Source: "/source", Target: filepath.Join(dir, "target")}
	var other *sftptest.Scripted // of a relay
	spoiled, server := host("spoiled", script)
	source, target := server, server
	tree.Host = spoiled
	switch side {
	case "upload":
		tree.Direction, tree.Source, tree.Target = upload, filepath.Join(dir,
			"source"), "/target"
		source = nil
		for name, data := range files {
			os.MkdirAll(filepath.Join(dir, "source", filepath.Dir(name)), 0o755)
			os.WriteFile(filepath.Join(dir, "source", name), data, 0o644)
		}
	case "download":
		tree.Direction = download
		target = nil
	case "relay's source":
		tree.Direction, tree.Target = relay, "/target"
		tree.From = spoiled
		tree.Host, other = host("good", sftptest.Script{})
		target = other
	case "relay's target":
		tree.Direction, tree.Target = relay, "/target"
		tree.From, other = host("good", sftptest.Script{})
		source = other
	}
	if source != nil {
		for name, data := range files {
			source.Files.WriteFile("/source/"+name, data)
		}
	}
	tree.Options.Retries = retries
	tree.Options.Backoff = func(int) time.Duration { return time.Millisecond }
	var notes []string
	tree.Options.Events = func(e transfer.Event) {
		if e.Message != "" {
			notes = append(notes, e.Message)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Minute)
	defer cancel()
	began := time.Now()
	summary, err := tree.Run(ctx)
	wrong := func(format string, args ...any) {
		t.Helper()
		t.Errorf("%s\n\t%s, %d retries, in order %v, reply %d: %v\n\t%+v, %v\n\t%q",
			fmt.Sprintf(format, args...), side, retries, ordered, i, s.do, summary.Totals, err,
			notes)
	}
	if ctx.Err() != nil {
		wrong("it took %v", time.Since(began))
	}
	if err == nil && !s.unknown {
		for name, data := range files {
			got, readErr := os.ReadFile(filepath.Join(dir, "target", name))
			if target != nil {
				got, readErr = target.Files.ReadFile("/target/" + name)
			}
			if readErr != nil || !bytes.Equal(got, data) {
				wrong("%s has %d bytes and should have %d: %v", name, len(got), len(data), readErr)
			}
		}
	}
	if err != nil && s.cuts && retries > 0 {
		wrong("it was not made good")
	}
	mu.Lock()
	unmade := s.unmade
	mu.Unlock()
	if err == nil {
		var left []string
		filepath.WalkDir(dir, func(name string, _ fs.DirEntry, _ error) error {
			if strings.Contains(name, ".usftp-") {
				left = append(left, name)
			}
			return nil
		})
		if target != nil {
			for _, name := range target.Files.List() {
				if strings.Contains(name, ".usftp-") {
					left = append(left, name)
				}
			}
		}
		for _, name := range left {
			if !s.unknown && !unmade && !strings.Contains(strings.Join(notes, "\n"),
				filepath.Base(name)) {
				wrong("left behind: %s", name)
			}
		}
		time.Sleep(time.Minute) // nobody waits for the CLOSE of what was only read
		mu.Lock()
		unmade = s.unmade
		mu.Unlock()
		for _, server := range []*sftptest.Scripted{server, other} {
			if server != nil && !s.unknown && !unmade && server.OpenHandles() > 0 {
				wrong("%d handles are open", server.OpenHandles())
			}
		}
	}
	mu.Lock()
	defer mu.Unlock()
	return hit
}
