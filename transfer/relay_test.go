package transfer_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/usftp/usftp/pool"
	"github.com/usftp/usftp/sftptest"
	"github.com/usftp/usftp/transfer"
	"github.com/usftp/usftp/wire"
)

// relayBench is two scripted servers and a client of each.
type relayBench struct {
	t        *testing.T
	from, to *bench
	events   []transfer.Event
}

func newRelayBench(t *testing.T, from, to sftptest.Script, link sftptest.LinkConfig) *relayBench {
	t.Helper()
	b := &relayBench{t: t, from: newTreeBench(t, from, link), to: newTreeBench(t, to, link)}
	b.from.host.Name, b.to.host.Name = "near", "far"
	return b
}

// options records the events.
func (b *relayBench) options(o transfer.Options) transfer.Options {
	b.events = nil
	o.Events = func(e transfer.Event) { b.events = append(b.events, e) }
	return o
}

func (b *relayBench) copy(source, target string, o transfer.Options) (transfer.Result, error) {
	return relayFile(b.t.Context(), b.from.host, source, b.to.host, target, b.options(o))
}

// clean makes sure that no temporary name is left.
func (b *relayBench) clean() {
	b.t.Helper()
	if left := append(b.from.temporaries(), b.to.temporaries()...); len(left) > 0 {
		b.t.Errorf("left behind: %q", left)
	}
}

// A file is copied from one host to another, complete, whatever its size, with its time and mode if
// wanted; events name both hosts.
func TestRelayFile(t *testing.T) {
	for _, size := range []int{0, 1, 5000, 261120, 3_000_000} {
		for _, verify := range []bool{false, true} {
			b := newRelayBench(t, sftptest.Script{}, sftptest.Script{}, sftptest.LinkConfig{})
			data := random(size)
			b.from.server.Files.WriteFile("/a", data)
			if err := b.from.host.Client.Chtimes("/a", oldTime, oldTime); err != nil {
				t.Fatal(err)
			}
			result, err := b.copy("/a", "/b",
				transfer.Options{Attributes: transfer.Attributes{Preserve: true}, Verify: verify})
			if err != nil || result.Bytes != int64(size) || result.Target != "/b" {
				t.Fatalf("%d: %+v, %v", size, result, err)
			}
			if verify != (result.Verified != "") {
				t.Errorf("verified: %q", result.Verified)
			}
			if !bytes.Equal(b.to.remote("/b"), data) {
				t.Errorf("%d: the copy differs", size)
			}
			if info, err := b.to.host.Client.Stat("/b"); err != nil ||
				!info.ModTime().Equal(oldTime) {
				t.Errorf("%d: %v, %v", size, info, err)
			}
			b.clean()
			for _, e := range b.events {
				if e.TargetHost != "far" || e.SourceHost != "near" || e.Target == "" ||
					e.Source != "/a" || e.Size != int64(size) {
					t.Errorf("%d: %+v", size, e)
				}
			}
			if last := b.events[len(b.events)-1]; last.Kind != transfer.Done ||
				last.Bytes != int64(size) {
				t.Errorf("%d: %+v", size, last)
			}
		}
	}
}

// Both sides work at the same time: over two long links a file costs the sum of both sides' round
// trips once, and not per packet.
func TestRelayIsPipelined(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const trip = 200 * time.Millisecond
		b := newRelayBench(t, sftptest.Script{}, sftptest.Script{},
			sftptest.LinkConfig{ToServer: trip / 2, ToClient: trip / 2})
		data := random(8 << 20) // 32 packets
		b.from.server.Files.WriteFile("/a", data)
		began := time.Now()
		if _, err := b.copy("/a", "/b", transfer.Options{}); err != nil {
			t.Fatal(err)
		}
		if trips := time.Since(began).Seconds() / trip.Seconds(); trips > 11 {
			t.Errorf("it took %.1f round trips", trips)
		}
		if !bytes.Equal(b.to.remote("/b"), data) {
			t.Error("the copy differs")
		}
	})
}

// Errors name the host on which they occurred.
func TestRelayErrors(t *testing.T) {
	refuse := func(kind wire.Type) sftptest.Script {
		return sftptest.Script{Intercept: func(r sftptest.Request) []sftptest.Action {
			if r.Type == kind {
				return []sftptest.Action{sftptest.Refuse(wire.PermissionDenied, "")}
			}
			return nil
		}}
	}
	for name, test := range map[string]struct {
		from, to       sftptest.Script
		source, target string
		want           string
		is             error
	}{
		"no source": {source: "/none", target: "/b",
			want: "cannot copy near:/none to far:/b: on near: no such file", is: fs.ErrNotExist},
		"no directory": {source: "/a", target: "/none/b",
			want: "cannot copy near:/a to far:/none/b: on far: the directory far:/none does not exist (mkdir -p makes it)",
			is:   fs.ErrNotExist},
		"a directory": {source: "/", target: "/b",
			want: "cannot copy near:/ to far:/b: on near: is a directory",
			is:   transfer.ErrIsDirectory},
		"refused reading": {from: refuse(wire.TypeRead), source: "/a", target: "/b",
			want: "cannot copy near:/a to far:/b: on near: permission denied",
			is:   fs.ErrPermission},
		"refused writing": {to: refuse(wire.TypeWrite), source: "/a", target: "/b",
			want: "cannot copy near:/a to far:/b: on far: permission denied", is: fs.ErrPermission},
	} {
		t.Run(name, func(t *testing.T) {
			b := newRelayBench(t, test.from, test.to, sftptest.LinkConfig{})
			b.from.server.Files.WriteFile("/a", random(1_000_000))
			_, err := b.copy(test.source, test.target, transfer.Options{})
			if err == nil || !strings.Contains(err.Error(), test.want) || !errors.Is(err, test.is) {
				t.Errorf("%v", err)
			}
			b.clean()
		})
	}
}

// What an interrupted relay left is continued.
func TestRelayResumes(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	var gate sftptest.Gate
	script := sftptest.Script{Intercept: func(r sftptest.Request) []sftptest.Action {
		if r.Type == wire.TypeWrite && r.Offset > 2_000_000 && ctx.Err() == nil {
			return []sftptest.Action{sftptest.Hold(&gate)}
		}
		return nil
	}}
	b := newRelayBench(t, sftptest.Script{}, script, sftptest.LinkConfig{})
	data := random(4_000_000)
	b.from.server.Files.WriteFile("/a", data)
	options := transfer.Options{Journal: t.TempDir(), Resume: true}
	options.SetProgressEvery(time.Millisecond)
	options.Events = func(e transfer.Event) {
		if e.Kind == transfer.Progress && e.Bytes > 1_000_000 {
			cancel()
			gate.Open()
		}
	}
	result, err := relayFile(ctx, b.from.host, "/a", b.to.host, "/b", options)
	if !errors.Is(err, context.Canceled) || result.LeftBehind == "" {
		t.Fatalf("%+v, %v", result, err)
	}
	options.Events = nil
	result, err = relayFile(t.Context(), b.from.host, "/a", b.to.host, "/b", options)
	if err != nil || result.Resumed == 0 || result.Bytes != int64(len(data)) {
		t.Fatalf("%+v, %v", result, err)
	}
	if !bytes.Equal(b.to.remote("/b"), data) {
		t.Error("the copy differs")
	}
	b.clean()
}

// If both ends share a connection and the server can copy by itself, the data does not pass through
// this machine.
func TestRelayOnOneHost(t *testing.T) {
	for name, extensions := range map[string][]wire.ExtensionPair{
		"copy-data": {{Name: wire.ExtCopyData, Data: "1"}, {Name: wire.ExtPosixRename, Data: "1"}},
		"through":   {{Name: wire.ExtPosixRename, Data: "1"}},
	} {
		t.Run(name, func(t *testing.T) {
			b := newTreeBench(t, sftptest.Script{Extensions: extensions}, sftptest.LinkConfig{})
			data := random(1_000_000)
			b.server.Files.WriteFile("/dir/large", data)
			b.server.Files.WriteFile("/dir/small", data[:100])
			result, err := relayFile(t.Context(), b.host, "/dir/large", b.host, "/copy",
				transfer.Options{})
			if err != nil || result.Bytes != int64(len(data)) ||
				!bytes.Equal(b.remote("/copy"), data) {
				t.Errorf("%+v, %v", result, err)
			}
			summary, err := relayTree(t.Context(), b.host, "/dir", b.host, "/tree",
				transfer.Options{})
			if err != nil || summary.Files != 2 || !bytes.Equal(b.remote("/tree/large"), data) ||
				!bytes.Equal(b.remote("/tree/small"), data[:100]) {
				t.Errorf("%+v, %v", summary, err)
			}
			if writes := len(b.server.Requests(wire.TypeWrite)); (writes == 0) != (name == "copy-data") {
				t.Errorf("%d WRITEs", writes)
			}
			// Neither a file over itself nor a tree into itself.
			for _, o := range []transfer.Options{{}, {Placement: transfer.PlaceDirect}} {
				if _, err = relayFile(t.Context(), b.host, "/copy", b.host, "/copy",
					o); err == nil || !strings.Contains(err.Error(), "the same file") {
					t.Errorf("%v", err)
				}
			}
			if _, err = relayTree(t.Context(), b.host, "/dir", b.host, "/dir/in",
				transfer.Options{}); err == nil || !strings.Contains(err.Error(), "into itself") {
				t.Errorf("%v", err)
			}
			if !bytes.Equal(b.remote("/copy"), data) || len(b.temporaries()) > 0 {
				t.Errorf("%q", b.server.Files.List())
			}
		})
	}
}

// A tree is relayed with everything that trees contain, and small files are in flight together.
func TestRelayTree(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const trip = 100 * time.Millisecond
		b := newRelayBench(t, sftptest.Script{}, sftptest.Script{},
			sftptest.LinkConfig{ToServer: trip / 2, ToClient: trip / 2})
		for i := range 500 {
			b.from.server.Files.WriteFile(fmt.Sprintf("/tree/d%d/f%d", i%7, i), random(i))
		}
		b.from.server.Files.WriteFile("/tree/large", random(2_000_000))
		if err := b.from.host.Client.Symlink("large", "/tree/link"); err != nil {
			t.Fatal(err)
		}
		if err := b.from.host.Client.Chtimes("/tree/large", oldTime, oldTime); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		summary, err := relayTree(t.Context(), b.from.host, "/tree", b.to.host, "/copy",
			b.options(transfer.Options{}))
		if err != nil || summary.Files != 501 || summary.Links != 1 || summary.Directories != 8 {
			t.Fatalf("%+v, %v", summary.Totals, err)
		}
		if trips := time.Since(began).Seconds() / trip.Seconds(); trips > 40 {
			t.Errorf("it took %.0f round trips", trips)
		}
		for _, name := range b.from.server.Files.List() {
			copied := path.Join("/copy", strings.TrimPrefix(name, "/tree"))
			data, err := b.from.server.Files.ReadFile(name)
			if err == nil && !bytes.Equal(b.to.remote(copied), data) {
				t.Errorf("%s differs", copied)
			}
		}
		if to, err := b.to.host.Client.ReadLink("/copy/link"); to != "large" || err != nil {
			t.Errorf("%q, %v", to, err)
		}
		if info, err := b.to.host.Client.Stat("/copy/large"); err != nil ||
			!info.ModTime().Equal(oldTime) {
			t.Errorf("%v, %v", info, err)
		}
		b.clean()

		// The second time, everything is there already.
		summary, err = relayTree(t.Context(), b.from.host, "/tree/.", b.to.host, "/copy",
			transfer.Options{Resume: true})
		if err != nil || summary.Kept != 501 {
			t.Errorf("%+v, %v", summary.Totals, err)
		}
	})
}

// A source that lies about names in a tree writes only inside the target.
func TestRelayFromHostileSource(t *testing.T) {
	file := func(name string) wire.Name {
		return wire.Name{Filename: name,
			Attrs: wire.Attrs{Flags: wire.AttrPermissions | wire.AttrSize, Permissions: 0o100644,
				Size: 3}}
	}
	link := func(name string) wire.Name {
		return wire.Name{Filename: name, Attrs: wire.Attrs{Flags: wire.AttrPermissions,
			Permissions: 0o120777}}
	}
	dir := func(name string) wire.Name {
		return wire.Name{Filename: name, Attrs: wire.Attrs{Flags: wire.AttrPermissions,
			Permissions: 0o040755}}
	}
	for name, entries := range map[string][]wire.Name{
		"above":            {file("a/.."), file("../../out/x"), dir("a/..")},
		"backslashes":      {file(`..\..\out\x`), file(`a\..\..\x`)},
		"link, then file":  {link("x"), file("x"), file("x")},
		"link, then dir":   {link("d"), dir("d")},
		"a zero in a name": {file("a\x00b")},
	} {
		for _, placement := range []transfer.Placement{transfer.PlaceAuto, transfer.PlaceDirect} {
			t.Run(fmt.Sprintf("%s, placement %d", name, placement), func(t *testing.T) {
				listed := make(map[string]bool)
				script := sftptest.Script{Intercept: func(r sftptest.Request) []sftptest.Action {
					switch {
					case r.Type == wire.TypeReaddir && !listed[r.Path]:
						listed[r.Path] = true
						return []sftptest.Action{
							sftptest.ReplyBytes(string(wire.Names{Names: entries}.Append(nil,
								r.ID)))}
					case r.Type == wire.TypeReadlink:
						return []sftptest.Action{
							sftptest.ReplyBytes(string(
								wire.Names{Names: []wire.Name{{Filename: "/out/x"}}}.Append(nil,
									r.ID)))}
					}
					return nil
				}}
				b := newRelayBench(t, script, sftptest.Script{}, sftptest.LinkConfig{})
				b.from.server.Files.WriteFile("/tree/x", []byte("bad"))
				b.from.server.Files.WriteFile("/tree/d/x", []byte("bad"))
				b.to.server.Files.WriteFile("/out/x", []byte("good"))
				b.to.server.Files.WriteFile("/to/kept", nil)
				relayTree(t.Context(), b.from.host, "/tree", b.to.host, "/to",
					b.options(transfer.Options{Placement: placement}))
				for _, name := range b.to.server.Files.List() {
					if name != "/" && name != "/out/" && name != "/out/x" && name != "/to/" &&
						!strings.HasPrefix(name, "/to/") {
						t.Errorf("it made %q", name)
					}
				}
				if got := b.to.remote("/out/x"); string(got) != "good" {
					t.Errorf("it wrote %q outside of the target", got)
				}
				for _, r := range b.to.server.Requests(wire.TypeOpen) {
					if strings.Contains(r.Path, "..") ||
						strings.HasPrefix(r.Path, "/out") && !strings.HasPrefix(r.Path, "/to") {
						t.Errorf("it opened %q", r.Path)
					}
				}
			})
		}
	}
}

// If either connection is lost it is replaced, and the file continues where it was.
func TestRelayReconnects(t *testing.T) {
	t.Parallel()
	for _, which := range []string{"near", "far"} {
		t.Run(which, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newRelayBench(t, sftptest.Script{}, sftptest.Script{},
					sftptest.LinkConfig{ToServer: 10e6, ToClient: 10e6})
				data := random(40 << 20)
				b.from.server.Files.WriteFile("/a", data)
				lost := b.from
				if which == "far" {
					lost = b.to
				}
				first, dialled := lost.host.Client, 0
				lost.host.Redial = func(context.Context) (pool.Host, error) {
					dialled++
					again := connect(t, lost.server.Dial(sftptest.LinkConfig{ToServer: 10e6,
						ToClient: 10e6}), inOrder)
					return pool.Host{Client: again.Client, Name: which}, nil
				}
				options := b.options(transfer.Options{Retry: pool.Retry{Retries: 2}})
				options.SetProgressEvery(time.Millisecond)
				tell := options.Events
				options.Events = func(e transfer.Event) {
					tell(e)
					if e.Kind == transfer.Progress && e.Bytes > 4<<20 {
						first.Close()
					}
				}
				result, err := relayFile(t.Context(), b.from.host, "/a", b.to.host, "/b",
					options)
				if err != nil || dialled != 1 || result.Resumed == 0 ||
					!bytes.Equal(b.to.remote("/b"), data) {
					t.Errorf("%+v, %v, %d new connections", result, err, dialled)
				}
				b.clean()
			})
		})
	}
}

// TestRelayOfTimesBefore1970: OpenSSH sends these as times after 2038, and no server can be sent
// them. They are not passed on as what they are not: 1970 is the nearest, and that is said once.
func TestRelayOfTimesBefore1970(t *testing.T) {
	for _, preserve := range []bool{false, true} {
		from := newBench(t, sftptest.Script{}, sftptest.LinkConfig{})
		to := newBench(t, sftptest.Script{}, sftptest.LinkConfig{})
		from.server.Files.WriteFile("/tree/file", []byte("data"))
		past := time.Unix(1<<32-86400, 0) // as a server sends the last day of 1969
		for _, name := range []string{"/tree/file", "/tree"} {
			if err := from.server.Files.SetTimes(name, past, past); err != nil {
				t.Fatal(err)
			}
		}
		var warned atomic.Int64
		s, err := relayTree(t.Context(), from.host, "/tree", to.host, "/copy",
			transfer.Options{Attributes: transfer.Attributes{Preserve: preserve},
				Events: func(e transfer.Event) {
					if e.Kind == transfer.Warning && strings.Contains(e.Message, "before 1970") {
						warned.Add(1)
					}
				}})
		if err != nil || warned.Load() != 1 {
			t.Errorf("preserve=%v: %+v, %d warnings, %v", preserve, s, warned.Load(), err)
		}
		attrs, err := to.server.Files.Lstat("/copy/file")
		if err != nil || preserve && attrs.MTime != 0 {
			t.Errorf("a file is of %v, %v", attrs.MTime, err)
		}
		for _, name := range []string{"/copy/file", "/copy"} {
			if attrs, there := to.server.Files.Lstat(name); there == nil &&
				time.Unix(int64(attrs.MTime), 0).After(time.Now().Add(time.Hour)) {
				t.Errorf("%s is of %v", name, time.Unix(int64(attrs.MTime), 0))
			}
		}
	}
}
