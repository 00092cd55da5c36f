package verb

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/usftp/usftp/sftptest"
)

// TestJSONLines: each verb prints one object per line, whatever it is about.
func TestJSONLines(t *testing.T) {
	dir := t.TempDir()
	writeFile(t, dir+"/f", "text\n\xff\nend")
	r := newRig(startServer(t, dir))
	ok(t, os.Mkdir(dir+"/m", 0o755))
	writeFile(t, dir+"/m/x", "")
	r.JSON, r.Host, r.Verbose = true, "h", true
	for name, run := range map[string]func() error{
		"cat": func() error {
			return Concatenate(t.Context(), r.Env, ConcatenateOptions{}, []string{"f", "missing"})
		},
		"head": func() error {
			return Head(t.Context(), r.Env, HeadOptions{Count: 1}, []string{"f"})
		},
		"tail": func() error {
			return Tail(t.Context(), r.Env, TailOptions{HeadOptions: HeadOptions{Count: 1}},
				[]string{"f"})
		},
		"ls": func() error {
			return List(t.Context(), r.Env, ListOptions{Recursive: true}, []string{"."})
		},
		"stat": func() error { return Status(t.Context(), r.Env, StatusOptions{}, []string{"f"}) },
		"du": func() error {
			return DiskUsage(t.Context(), r.Env, DiskUsageOptions{All: true, Depth: -1},
				[]string{"."})
		},
		"df": func() error { return Space(t.Context(), r.Env, SpaceOptions{}, []string{"."}) },
		"mkdir": func() error {
			return MakeDirectory(t.Context(), r.Env, MakeDirectoryOptions{Parents: true},
				[]string{"x/y"})
		},
		"touch": func() error { return Touch(t.Context(), r.Env, TouchOptions{}, []string{"f"}) },
		"chmod": func() error {
			return ChangeMode(t.Context(), r.Env, ChangeModeOptions{Mode: "644"},
				[]string{"f", "missing"})
		},
		"ln": func() error {
			return Link(t.Context(), r.Env, LinkOptions{Symbolic: true, Force: true},
				[]string{"f", "l"})
		},
		"chown": func() error {
			return ChangeOwner(t.Context(), r.Env,
				ChangeOwnerOptions{Owner: fmt.Sprint(os.Getuid())}, []string{"f", "missing"})
		},
		"mv": func() error {
			writeFile(t, dir+"/moves", "")
			return Move(t.Context(), r.Env, MoveOptions{}, []string{"moves", "missing", "m"})
		},
		"rmdir": func() error {
			ok(t, os.MkdirAll(dir+"/gone", 0o755))
			return RemoveDirectory(t.Context(), r.Env, RemoveDirectoryOptions{},
				[]string{"gone", "m"})
		},
		"rm": func() error {
			writeFile(t, dir+"/goes/x", "")
			return Remove(t.Context(), r.Env, RemoveOptions{Recursive: true},
				[]string{"goes", "missing"})
		},
		"find": func() error {
			e, err := ParseExpression(strings.Fields("-name f -print -print0"))
			ok(t, err)
			return Find(t.Context(), r.Env, e, []string{".", "missing"})
		},
	} {
		err := run()
		out, said := r.take()
		if failed := strings.Contains(out, `"kind":"error"`); failed != (err != nil) ||
			failed != (said != "") {
			t.Errorf("%s: %v, said %q and printed %s", name, err, said, out)
		}
		if out == "" {
			t.Errorf("%s printed nothing", name)
		}
		for line := range strings.Lines(out) {
			var object struct {
				Version          int `json:"v"`
				Kind, Host, Path string
			}
			if err := json.Unmarshal([]byte(line), &object); err != nil ||
				!strings.HasSuffix(line, "}\n") || object.Version != 1 ||
				object.Kind == "" || object.Host != "h" || object.Path == "" {
				t.Errorf("%s: %q: %v", name, line, err)
			}
		}
	}
}

// TestSpaceJSON: -i selects columns, and the objects have both.
func TestSpaceJSON(t *testing.T) {
	server := sftptest.NewServer(t, sftptest.Script{})
	client := clientOf(t, server.Dial(sftptest.LinkConfig{}))
	r := newRig(client)
	r.JSON = true
	ok(t, Space(t.Context(), r.Env, SpaceOptions{}, []string{"/"}))
	blocks, _ := r.take()
	ok(t, Space(t.Context(), r.Env, SpaceOptions{Inodes: true}, []string{"/"}))
	if inodes, _ := r.take(); inodes != blocks || !strings.Contains(blocks, `"used":`) {
		t.Errorf("with -i %s, without %s", inodes, blocks)
	}
}
