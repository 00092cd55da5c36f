package verb

import (
	"context"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/sftptest"
	"github.com/usftp/usftp/wire"
)

// TestRoundTrips limits how many round trips the recursive verbs take for 5,000 files. A directory
// below another takes at least two: one to open it, and one to list it.
func TestRoundTrips(t *testing.T) {
	for _, verb := range []struct {
		name  string
		run   func(ctx context.Context, r *rig) error
		lines int // at least this many lines of output
	}{
		{"ls -lR", func(ctx context.Context, r *rig) error {
			return List(ctx, r.Env, ListOptions{Long: true, Recursive: true}, []string{"/t"})
		}, manyFiles},
		{"du", func(ctx context.Context, r *rig) error {
			return DiskUsage(ctx, r.Env, DiskUsageOptions{Depth: -1}, []string{"/t"})
		}, 1},
		{"find", func(ctx context.Context, r *rig) error {
			e, err := ParseExpression(strings.Fields("-name *5 -print"))
			if err != nil {
				return err
			}
			return Find(ctx, r.Env, e, []string{"/t"})
		}, manyFiles / 10},
		{"find -delete", func(ctx context.Context, r *rig) error {
			e, err := ParseExpression([]string{"-delete"})
			if err != nil {
				return err
			}
			return Find(ctx, r.Env, e, []string{"/t"})
		}, 0},
		{"chmod -R", func(ctx context.Context, r *rig) error {
			return ChangeMode(ctx, r.Env, ChangeModeOptions{Recursive: true, Mode: "go-w"},
				[]string{"/t"})
		}, 0},
		{"chown -R", func(ctx context.Context, r *rig) error {
			return ChangeOwner(ctx, r.Env, ChangeOwnerOptions{Recursive: true, Owner: "1:1"},
				[]string{"/t"})
		}, 0},
		{"rm -r", func(ctx context.Context, r *rig) error {
			return Remove(ctx, r.Env, RemoveOptions{Recursive: true}, []string{"/t"})
		}, 0},
	} {
		for _, s := range shapes {
			t.Run(verb.name+"/"+s.name, func(t *testing.T) {
				t.Parallel()
				onShape(t, s, openSSH, func(r *rig, server *sftptest.Scripted) {
					var err error
					took := trips(func() { err = verb.run(context.Background(), r) })
					out, said := r.take()
					ok(t, err)
					t.Logf("%.1f round trips", took)
					most := map[string]float64{"wide": 13, "directories": 14, "deep": 72}[s.name]
					if took > most || said != "" {
						t.Errorf("%.1f round trips, at most %v; said %q", took, most, said)
					}
					if lines := strings.Count(out, "\n"); lines < verb.lines {
						t.Errorf("%d lines", lines)
					}
					_, err = r.Client.Lstat("/t")
					if gone := verb.name == "rm -r" ||
						verb.name == "find -delete"; gone != (err != nil) {
						t.Errorf("Lstat afterwards: %v", err)
					}
				})
			})
		}
	}
}

// TestRoundTripsOfSeveral limits how many round trips the verbs take for 50 operands: as many as
// for one.
func TestRoundTripsOfSeveral(t *testing.T) {
	var names []string
	for i := range 50 {
		names = append(names, shapes[0].path(i))
	}
	fresh := func(suffix string) (list []string) {
		for _, name := range names {
			list = append(list, name+suffix)
		}
		return list
	}
	last := TailOptions{HeadOptions: HeadOptions{Count: 1}}
	for _, verb := range []struct {
		name string
		run  func(ctx context.Context, r *rig) error
		most float64
	}{
		{"cat", func(ctx context.Context, r *rig) error {
			return Concatenate(ctx, r.Env, ConcatenateOptions{}, names)
		}, 4},
		{"tail", func(ctx context.Context, r *rig) error { return Tail(ctx, r.Env, last, names) }, 4},
		{"touch", func(ctx context.Context, r *rig) error {
			return Touch(ctx, r.Env, TouchOptions{}, names)
		}, 2},
		{"touch new", func(ctx context.Context, r *rig) error {
			return Touch(ctx, r.Env, TouchOptions{}, fresh(".new"))
		}, 3},
		{"rm", func(ctx context.Context, r *rig) error {
			return Remove(ctx, r.Env, RemoveOptions{}, names)
		}, 2},
		{"mkdir", func(ctx context.Context, r *rig) error {
			return MakeDirectory(ctx, r.Env, MakeDirectoryOptions{}, fresh(".d"))
		}, 1},
		{"mkdir -m", func(ctx context.Context, r *rig) error {
			return MakeDirectory(ctx, r.Env, MakeDirectoryOptions{Mode: "700"}, fresh(".d"))
		}, 2},
		{"mkdir -p", func(ctx context.Context, r *rig) error {
			return MakeDirectory(ctx, r.Env, MakeDirectoryOptions{Parents: true}, fresh(".d/a/b"))
		}, 2},
		{"rmdir", func(ctx context.Context, r *rig) error {
			return RemoveDirectory(ctx, r.Env, RemoveDirectoryOptions{}, fresh(".empty"))
		}, 1},
		{"ln", func(ctx context.Context, r *rig) error {
			return Link(ctx, r.Env, LinkOptions{}, append(names[:50:50], "/into"))
		}, 2},
		{"ln -s", func(ctx context.Context, r *rig) error {
			return Link(ctx, r.Env, LinkOptions{Symbolic: true}, append(names[:50:50], "/into"))
		}, 2},
		{"ln -sf", func(ctx context.Context, r *rig) error {
			return Link(ctx, r.Env, LinkOptions{Symbolic: true, Force: true},
				append(names[:50:50], "/old"))
		}, 6},
		{"mv", func(ctx context.Context, r *rig) error {
			return Move(ctx, r.Env, MoveOptions{}, append(names[:50:50], "/into"))
		}, 2},
		{"chmod", func(ctx context.Context, r *rig) error {
			return ChangeMode(ctx, r.Env, ChangeModeOptions{Mode: "600"}, names)
		}, 2},
		{"stat", func(ctx context.Context, r *rig) error {
			return Status(ctx, r.Env, StatusOptions{}, names)
		}, 2},
		{"ls -l", func(ctx context.Context, r *rig) error {
			return List(ctx, r.Env, ListOptions{Long: true}, names)
		}, 2},
		{"du", func(ctx context.Context, r *rig) error {
			return DiskUsage(ctx, r.Env, DiskUsageOptions{Depth: -1}, names)
		}, 1},
	} {
		t.Run(verb.name, func(t *testing.T) {
			t.Parallel()
			onShape(t, shapes[0], openSSH, func(r *rig, server *sftptest.Scripted) {
				var err error
				for _, name := range names {
					server.Files.WriteFile(name, []byte("text\n"))
					server.Files.Mkdir(name + ".empty")
					server.Files.Symlink("other", "/old/"+path.Base(name))
				}
				server.Files.Mkdir("/into")
				took := trips(func() { err = verb.run(context.Background(), r) })
				_, said := r.take()
				if ok(t, err); took > verb.most || said != "" {
					t.Errorf("%.1f round trips, at most %v; said %q", took, verb.most, said)
				}
			})
		})
	}
}

// TestDependentOperands: an operand may need an earlier one, and is told about after it. A server
// that works on several requests at once may come to it first.
func TestDependentOperands(t *testing.T) {
	for _, test := range []struct {
		name string
		run  func(r *rig) error
		late sftptest.Fault // what a server that works out of order answers
		out  string
		left []string
	}{
		{"mkdir", func(r *rig) error {
			return MakeDirectory(t.Context(), r.Env, MakeDirectoryOptions{}, []string{"/a", "/a/b"})
		}, sftptest.Fault{On: wire.TypeMkdir, Path: "/a/b", Do: sftptest.Refuse(wire.NoSuchFile, "")},
			"mkdir: created directory '/a'\nmkdir: created directory '/a/b'\n",
			[]string{"/a/", "/a/b/", "/full/", "/full/empty/"}},
		{"mkdir -p", func(r *rig) error {
			return MakeDirectory(t.Context(), r.Env, MakeDirectoryOptions{Parents: true, Mode: "700"},
				[]string{"/a/b", "/a/", "/a/c", "/full/", "/a/c"})
		}, sftptest.Fault{On: wire.TypeMkdir, Path: "/a/c", Do: sftptest.Refuse(wire.NoSuchFile, "")},
			"mkdir: created directory '/a'\nmkdir: created directory '/a/b'\n" +
				"mkdir: created directory '/a/c'\n",
			[]string{"/a/", "/a/b/", "/a/c/", "/full/", "/full/empty/"}},
		{"rmdir", func(r *rig) error {
			return RemoveDirectory(t.Context(), r.Env, RemoveDirectoryOptions{},
				[]string{"/full/empty", "/full"})
		}, sftptest.Fault{On: wire.TypeRmdir, Path: "/full", Do: sftptest.Refuse(wire.Failure, "")},
			"rmdir: removing directory, '/full/empty'\nrmdir: removing directory, '/full'\n", nil},
	} {
		for _, version := range []string{openSSH, "SSH-2.0-other"} {
			t.Run(test.name+" on "+version, func(t *testing.T) {
				server := sftptest.NewServer(t, sftptest.Script{})
				server.Files.Mkdir("/full/empty")
				if test.late.Times = 1; version != openSSH {
					server.AddFaults(test.late)
				}
				client := clientOf(t, server.Dial(sftptest.LinkConfig{}), usftp.WithServerVersion(version))
				r := newRig(client)
				r.Verbose = true
				err := test.run(r)
				if out, said := r.take(); err != nil || out != test.out || said != "" {
					t.Errorf("%v; %q; said %q", err, out, said)
				}
				if left := server.Files.List(); !slices.Equal(left, test.left) {
					t.Errorf("there are %q", left)
				}
				if info, err := client.Stat("/a"); err == nil && test.name == "mkdir -p" &&
					info.Mode().Perm() == 0o700 {
					t.Error("-m changed the mode of a parent")
				}
			})
		}
	}
}
