package scp_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"slices"
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

// unclosed is a tree whose files cannot be closed.
type unclosed struct{ *memfs.FS }

type unclosedFile struct{ *hidingFile }

func (unclosedFile) Close() error { return errors.New("no space left") }

func (u unclosed) Open(ctx context.Context, name string, flags uint32,
	attrs wire.Attrs) (server.File, error) {
	file, err := hiding(u).Open(ctx, name, flags, attrs)
	if hidden, ok := file.(*hidingFile); ok {
		return unclosedFile{hidden}, err
	}
	return file, err
}

// shortWriter is a stream to a client that leaves when it has been sent some bytes.
type shortWriter struct{ left int }

func (s *shortWriter) Write(p []byte) (int, error) {
	if s.left -= len(p); s.left < 0 {
		return 0, io.ErrClosedPipe
	}
	return len(p), nil
}

// TestEveryOpenedFileEnds: each file that was reported as opened is reported as ended, once.
func TestEveryOpenedFileEnds(t *testing.T) {
	for name, one := range map[string]struct {
		line, says string
		takes      int
		want       []server.EventKind
	}{
		"it cannot be closed": {"scp -t /f", "C0644 5 f\nhello\x00", 100,
			[]server.EventKind{server.FileOpened, server.FileFailed}},
		"the client leaves at the end": {"scp -f /kept", "\x00\x00", len("C0644 2 kept\nhi"),
			[]server.EventKind{server.FileOpened, server.FileAbandoned}},
		"all is well": {"scp -f /kept", "\x00\x00\x00", 100,
			[]server.EventKind{server.FileOpened, server.FileClosed}},
	} {
		f := memfs.New(0)
		if _, err := talk(t, f, nil, "scp -t /kept", "C0644 2 kept\nhi\x00"); err != nil {
			t.Fatal(err)
		}
		command, err := scp.Parse(one.line)
		if err != nil {
			t.Fatal(err)
		}
		view, err := server.NewView(unclosed{f}, nil)
		if err != nil {
			t.Fatal(err)
		}
		var got []server.EventKind
		stream := struct {
			io.Reader
			io.Writer
		}{strings.NewReader(one.says), &shortWriter{one.takes}}
		scp.Serve(context.Background(), stream, view, command, &server.Reporter{
			Events: func(e server.Event) {
				if e.Kind != server.TreeChanged {
					got = append(got, e.Kind)
				}
			}})
		if !slices.Equal(got, one.want) {
			t.Errorf("%s: the events are %q, want %q", name, got, one.want)
		}
	}
}

// TestGate: a file that the gate refuses is abandoned, and the client is told why.
func TestGate(t *testing.T) {
	f := hiding{memfs.New(0)}
	var asked server.Event
	reports := &server.Reporter{Protocol: "scp",
		Gate: func(e server.Event) (func(error), error) {
			asked = e
			return nil, errors.New("it has a virus")
		}}
	told, err := talkReported(t, f, nil, reports, "scp -t /f", "C0644 5 f\nhello\x00")
	if !errors.Is(err, scp.ErrFailed) || !strings.Contains(told, "it has a virus") {
		t.Errorf("%v, and the client is told %q", err, told)
	}
	if asked.Kind != server.FileClosed || !asked.Upload || asked.Written != 5 ||
		asked.Path != "/f" || asked.Protocol != "scp" {
		t.Errorf("the gate is asked about %+v", asked)
	}
	if _, err := f.Stat(t.Context(), "/f"); err == nil {
		t.Error("the file is there")
	}
}
