package server_test

import (
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/usftp/usftp/server"
	"github.com/usftp/usftp/server/memfs"
	"github.com/usftp/usftp/wire"
)

// putFiles and getFiles are requests for several files.
type putFiles []wire.PutFile

func (m putFiles) Append(b []byte, id uint32) []byte {
	return appendFiles(b, id, wire.ExtPutFiles, len(m),
		func(i int, p []byte) []byte { return m[i].Append(p) })
}

type getFiles []wire.GetFile

func (m getFiles) Append(b []byte, id uint32) []byte {
	return appendFiles(b, id, wire.ExtGetFiles, len(m),
		func(i int, p []byte) []byte { return m[i].Append(p) })
}

func appendFiles(b []byte, id uint32, extension string, n int,
	file func(i int, p []byte) []byte) []byte {
	p := wire.BeginFiles(nil, extension, -1)
	for i := range n {
		p = file(i, p)
	}
	p = wire.FinishFiles(p)
	wire.SetID(p, id)
	return append(b, p...)
}

// file is a file to put. Backends where files appear when they are closed need no temporary name.
func (c *raw) file(name, text string) wire.PutFile {
	f := wire.PutFile{Path: name, Temporary: "." + path.Base(name) + ".new", Data: []byte(text),
		Set: wire.Attrs{Flags: wire.AttrACModTime, ATime: 1, MTime: 1000}}
	if c.offers[wire.ExtUploads] != "" {
		f.Temporary = ""
	}
	return f
}

// codes asks for several files to be put.
func (c *raw) codes(files putFiles) (codes []wire.Code) {
	c.t.Helper()
	p := c.do(files)
	if p.typ != wire.TypeExtendedReply {
		c.t.Fatalf("answered by %v: %+v", p.typ, p.status(c.t))
	}
	for rest := p.body; len(rest) > 0; {
		var one wire.FileStatus
		var err error
		if rest, err = one.Parse(rest); err != nil {
			c.t.Fatal(err)
		}
		codes = append(codes, one.Code)
	}
	return codes
}

// got asks for several files, and returns each one's text, or its status.
func (c *raw) got(files getFiles) (texts []string) {
	c.t.Helper()
	p := c.do(files)
	if p.typ != wire.TypeExtendedReply {
		c.t.Fatalf("answered by %v: %+v", p.typ, p.status(c.t))
	}
	for rest := p.body; len(rest) > 0; {
		var one wire.GotFile
		var err error
		if rest, err = one.Parse(rest); err != nil {
			c.t.Fatal(err)
		}
		text := string(one.Data)
		if one.Code != wire.OK {
			text = one.Message
		} else if !one.Attrs.Has(wire.AttrSize) || one.Attrs.Size != uint64(len(text)) {
			c.t.Errorf("%q has the attributes %+v", text, one.Attrs)
		}
		texts = append(texts, text)
	}
	return texts
}

// TestSmallFiles: each file of a request gets its contents and a status of its own, and nothing
// else is left, whatever the backend.
func TestSmallFiles(t *testing.T) {
	for name, make := range backends {
		t.Run(name, func(t *testing.T) {
			c := start(t, make(t), nil)
			c.ok(wire.PathAttrs{Type: wire.TypeMkdir, Path: "/d"})
			c.ok(wire.PathAttrs{Type: wire.TypeMkdir, Path: "/d/dir"})
			files := putFiles{c.file("/a", "one"), c.file("/d/b", ""), c.file("/d/dir", "in the way"),
				c.file("/none/c", "nowhere"), c.file("/d/e", strings.Repeat("x", wire.LargestFile))}
			codes := c.codes(files)
			if codes[0] != wire.OK || codes[1] != wire.OK || codes[2] == wire.OK ||
				codes[4] != wire.OK {
				t.Errorf("the statuses are %v", codes)
			}
			if name != "objectfs" { // which makes directories as they are needed
				want(t, codes[3], wire.NoSuchFile)
				want(t, slices.Sorted(slices.Values(c.list("/"))), []string{"a", "d"})
			}
			want(t, slices.Sorted(slices.Values(c.list("/d"))), []string{"b", "dir", "e"})
			want(t, c.got(getFiles{{Path: "/a", Size: 3}, {Path: "/d/b"}, {Path: "/a", Size: 2},
				{Path: "/a", Size: 4}, {Path: "/d/e", Size: wire.LargestFile}}),
				[]string{"one", "", "the file has another size", "the file has another size",
					string(files[4].Data)})
			texts := c.got(getFiles{{Path: "/d", Size: 4096}, {Path: "/nothing", Size: 1}})
			if len(texts) != 2 || len(texts[0]) == 4096 || texts[1] == "" {
				t.Errorf("what is no file was answered with %q", texts)
			}
		})
	}
}

// TestSmallFilesReplace: a file with a temporary name replaces another one at once.
func TestSmallFilesReplace(t *testing.T) {
	for name, make := range onDisk() {
		t.Run(name, func(t *testing.T) {
			c := start(t, make(t), nil)
			c.put("/a", "the old one")
			f := c.file("/a", "new")
			f.Temporary = ".t"
			want(t, c.codes(putFiles{f}), []wire.Code{wire.OK})
			c.put("/.t", "somebody's")
			if codes := c.codes(putFiles{f}); codes[0] == wire.OK {
				t.Error("a file that had the temporary name was overwritten")
			}
			want(t, c.got(getFiles{{Path: "/a", Size: 3}, {Path: "/.t", Size: 10}}),
				[]string{"new", "somebody's"})
			want(t, c.stat("/a").MTime, 1000)
		})
	}
}

// TestHostileSmallFiles: what no client of ours sends is refused as a whole.
func TestHostileSmallFiles(t *testing.T) {
	c := start(t, memfs.New(0), nil)
	for what, files := range map[string]putFiles{
		"no temporary name":           {{Path: "/a"}},
		"a path as temporary name":    {{Path: "/a", Temporary: "b/c"}},
		"dots as temporary name":      {{Path: "/a", Temporary: ".."}},
		"the name as temporary name":  {{Path: "/a", Temporary: "a"}},
		"no name":                     {{Path: "", Temporary: "t"}},
		"NUL":                         {{Path: "/a\x00", Temporary: "t"}},
		"NUL in the temporary name":   {{Path: "/a", Temporary: "t\x00"}},
		"a path that is too long":     {{Path: "/" + strings.Repeat("a", 5000), Temporary: "t"}},
		"too much data":               {{Path: "/a", Temporary: "t", Data: make([]byte, wire.LargestFile+1)}},
		"too many files":              make(putFiles, wire.MostFiles+1),
		"a size":                      {{Path: "/a", Temporary: "t", Set: wire.Attrs{Flags: wire.AttrSize}}},
		"unknown flags":               {{Path: "/a", Temporary: "t", Flags: 2}},
		"a good one and then another": {{Path: "/a", Temporary: "t"}, {Path: "/b", Temporary: "c/d"}},
	} {
		for i := range files {
			if what == "too many files" {
				files[i] = wire.PutFile{Path: "/a", Temporary: "t"}
			}
		}
		if p := c.do(files); p.typ != wire.TypeStatus || p.status(t).Code == wire.OK {
			t.Errorf("%s is accepted", what)
		}
	}
	for what, files := range map[string]getFiles{
		"a large file":   {{Path: "/a", Size: wire.LargestFile + 1}},
		"no name":        {{Size: 1}},
		"too much":       slices.Repeat(getFiles{{Path: "/a", Size: wire.LargestFile}}, 9),
		"too many files": slices.Repeat(getFiles{{Path: "/a"}}, wire.MostFiles+1),
	} {
		if p := c.do(files); p.typ != wire.TypeStatus || p.status(t).Code == wire.OK {
			t.Errorf("%s is accepted", what)
		}
	}
	c.put("/f", strings.Repeat("x", wire.LargestFile))
	for _, room := range []int{40 << 10, wire.MaxPacket - 64} { // what fits a buffer exactly
		var files getFiles
		for room > wire.LargestFile+2*96 {
			files = append(files, wire.GetFile{Path: "/f", Size: wire.LargestFile})
			room -= wire.LargestFile + 96
		}
		files = append(files, wire.GetFile{Path: "/f", Size: uint32(room - 96)})
		if texts := c.got(files); len(texts) != len(files) || len(texts[0]) != wire.LargestFile {
			t.Errorf("%d of %d answers", len(texts), len(files))
		}
	}
	c.ok(wire.PathRequest{Type: wire.TypeRemove, Path: "/f"})
	cut := putFiles{c.file("/a", "text")}.Append(nil, 0)
	body := cut[wire.HeaderSize+4+len(wire.ExtPutFiles):]
	p := c.do(wire.Extended{Name: wire.ExtPutFiles, Payload: body[:len(body)-1]})
	want(t, p.status(t).Code, wire.BadMessage)
	want(t, len(c.list("/")), 0)
}

// TestSmallFilesObeyPolicy: what the policy forbids of the steps is forbidden, and not offered.
func TestSmallFilesObeyPolicy(t *testing.T) {
	files := memfs.New(0)
	start(t, files, nil).put("/there", "text")
	for _, test := range []struct {
		policy   server.Policy
		put, get bool
	}{
		{server.Policy{}, true, true},
		{server.Policy{ReadOnly: true}, false, true},
		{server.Policy{Denied: []string{"write"}}, false, true},
		{server.Policy{Denied: []string{"fsetstat"}}, false, true},
		{server.Policy{Denied: []string{"rename"}}, false, true},
		{server.Policy{Denied: []string{"read"}}, true, false},
		{server.Policy{Denied: []string{"open"}}, false, false},
		{server.Policy{Denied: []string{"put-files", "get-files"}}, false, false},
		{server.Policy{Allowed: []string{"open", "read"}}, false, false},
	} {
		c := start(t, files, &server.Options{Policy: test.policy})
		want(t, c.offers[wire.ExtPutFiles] == "1", test.put)
		want(t, c.offers[wire.ExtGetFiles] == "1", test.get)
		put, get := c.do(putFiles{c.file("/new", "x")}), c.do(getFiles{{Path: "/there", Size: 4}})
		if done := firstDone(t, put); done != test.put {
			t.Errorf("%+v: putting a file: %v", test.policy, done)
		}
		if done := firstDone(t, get); done != test.get {
			t.Errorf("%+v: getting a file: %v", test.policy, done)
		}
	}
	c := start(t, files, &server.Options{Policy: server.Policy{MaxFileSize: 4,
		Denied: []string{"remove"}}})
	want(t, c.codes(putFiles{c.file("/new", "12345"), c.file("/new", "1234")}),
		[]wire.Code{wire.Failure, wire.OK})
	want(t, slices.Sorted(slices.Values(c.list("/"))), []string{"new", "there"})
}

// firstDone reports whether the first file of a request was put or got.
func firstDone(t *testing.T, p packet) bool {
	var one wire.FileStatus
	if p.typ != wire.TypeExtendedReply {
		return false
	}
	_, err := one.Parse(p.body)
	return err == nil && one.Code == wire.OK
}

// TestSmallFilesFillQuota: files that are too much for the quota are refused one by one, and leave
// nothing that counts.
func TestSmallFilesFillQuota(t *testing.T) {
	for name, make := range backends {
		t.Run(name, func(t *testing.T) {
			q := server.NewQuota(25, 100)
			c := start(t, make(t), &server.Options{Policy: server.Policy{Quota: q}})
			codes := c.codes(putFiles{c.file("/a", "0123456789"), c.file("/b", "0123456789"),
				c.file("/c", "0123456789abcdef"), c.file("/d", "0123")}) // in any order
			want(t, codes, []wire.Code{wire.OK, wire.OK, wire.Failure, wire.OK})
			want(t, usage(q), [2]int64{24, 3})
			want(t, slices.Sorted(slices.Values(c.list("/"))), []string{"a", "b", "d"})
		})
	}
}

// TestEventsOfSmallFiles: files that are put and got in one request have the same events as if each
// step had been a request.
func TestEventsOfSmallFiles(t *testing.T) {
	steps := func(c *raw, name, text string) {
		h := c.open("/."+name, wire.OpenWrite|wire.OpenCreate|wire.OpenExclusive)
		c.ok(wire.Write{Handle: h, Data: []byte(text)})
		c.ok(wire.Fsetstat{Handle: h, Attrs: wire.Attrs{Flags: wire.AttrACModTime, MTime: 1}})
		c.close(h)
		c.ok(wire.PosixRename{OldPath: "/." + name, NewPath: "/" + name})
	}
	var kinds [2][]server.EventKind
	var hashes [2][]string
	for i := range kinds {
		book := &eventBook{}
		c := start(t, memfs.New(0), &server.Options{Events: book.note, Hashes: true})
		if i == 0 {
			steps(c, "a", "one")
			steps(c, "b", "two")
			c.get("/a")
			c.get("/b")
		} else {
			want(t, c.codes(putFiles{c.file("/a", "one"), c.file("/b", "two")}),
				[]wire.Code{wire.OK, wire.OK})
			want(t, c.got(getFiles{{Path: "/a", Size: 3}, {Path: "/b", Size: 3}}),
				[]string{"one", "two"})
		}
		c.over()
		kinds[i] = book.kinds()
		for _, e := range book.events {
			if e.Kind == server.FileClosed {
				hashes[i] = append(hashes[i], e.SHA256)
			}
		}
	}
	want(t, kinds[1], kinds[0])
	want(t, hashes[1], hashes[0])
	if len(hashes[0]) != 4 || slices.Contains(hashes[0], "") {
		t.Errorf("the hashes are %q", hashes[0])
	}
}

// TestSmallFileThatIsNotSent: what has another size than the client expects is not sent, does not
// count as a download, and takes nothing of what the client may fetch.
func TestSmallFileThatIsNotSent(t *testing.T) {
	book, fetched := &eventBook{}, server.NewAccount(0, 0)
	c := start(t, memfs.New(0), &server.Options{Events: book.note,
		Policy: server.Policy{Downloads: fetched}})
	c.put("/f", "text")
	for _, size := range []uint32{2, 9} {
		want(t, c.got(getFiles{{Path: "/f", Size: size}}), []string{"the file has another size"})
		want(t, book.last().Kind, server.FileAbandoned)
		want(t, fetched.Usage().Bytes, 0)
	}
	want(t, c.got(getFiles{{Path: "/f", Size: 4}}), []string{"text"})
	want(t, book.last().Kind, server.FileClosed)
	want(t, fetched.Usage().Bytes, 4)
}
