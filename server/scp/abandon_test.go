package scp_test

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"strings"
	"testing"

	"github.com/usftp/usftp/server"
	"github.com/usftp/usftp/server/memfs"
	"github.com/usftp/usftp/server/scp"
	"github.com/usftp/usftp/wire"
)

// hiding is a tree in memory whose files are removed when they are abandoned.
type hiding struct{ *memfs.FS }

type hidingFile struct {
	server.File
	io.WriterAt
	server.FileStater
	server.FileSetstater
	remove func()
}

func (h hiding) Open(ctx context.Context, name string, flags uint32,
	attrs wire.Attrs) (server.File, error) {
	file, err := h.FS.Open(ctx, name, flags, attrs)
	if err != nil || flags&wire.OpenWrite == 0 {
		return file, err
	}
	return &hidingFile{file, file.(io.WriterAt), file.(server.FileStater),
		file.(server.FileSetstater), func() { h.Remove(ctx, name) }}, nil
}

func (f *hidingFile) Abandon() error {
	f.remove()
	return f.Close()
}

// TestAbandonedFiles: a file that does not come completely is abandoned and logged as such, and so
// is one that the client does not take completely.
func TestAbandonedFiles(t *testing.T) {
	big := strings.Repeat("x", 100)
	for name, one := range map[string]struct {
		policy           server.Policy
		line, says, want string
	}{
		"the client leaves": {server.Policy{}, "scp -t /f", "C0644 5 f\nhel",
			"transfer=upload read=0 written=3"},
		"it leaves at the end": {server.Policy{}, "scp -t /f", "C0644 5 f\nhello",
			"transfer=upload read=0 written=5"},
		"it cannot read its file": {server.Policy{}, "scp -t /f",
			"C0644 5 f\nhello\x01scp: f: bad sector\n", "could not read all"},
		"the quota is full": {server.Policy{Quota: server.NewQuota(50, 0)}, "scp -t /f",
			"C0644 100 f\n" + big + "\x00", `error="quota exceeded"`},
		"the client takes part": {server.Policy{}, "scp -f /kept", "\x00\x02gone\n", ""},
	} {
		t.Run(name, func(t *testing.T) {
			f := hiding{memfs.New(0)}
			if _, err := talk(t, f, nil, "scp -t /kept", "C0644 2 kept\nhi\x00"); err != nil {
				t.Fatal(err)
			}
			command, err := scp.Parse(one.line)
			if err != nil {
				t.Fatal(err)
			}
			view, err := server.NewView(f, &one.policy)
			if err != nil {
				t.Fatal(err)
			}
			var log bytes.Buffer
			stream := struct {
				io.Reader
				io.Writer
			}{strings.NewReader(one.says), io.Discard}
			scp.Serve(context.Background(), stream, view, command,
				&server.Reporter{Logger: slog.New(slog.NewTextHandler(&log, nil)), Protocol: "scp"})
			if _, err := f.Stat(context.Background(), "/f"); err == nil {
				t.Error("the file is there")
			}
			if strings.Contains(log.String(), "file closed") {
				t.Errorf("the file was logged as closed:\n%s", &log)
			}
			if one.want != "" && (!strings.Contains(log.String(), `level=WARN msg="file abandoned"`) ||
				!strings.Contains(log.String(), one.want)) {
				t.Errorf("the log does not say %s:\n%s", one.want, &log)
			}
		})
	}
}
