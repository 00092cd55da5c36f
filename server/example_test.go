package server_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"strings"
	"time"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/server"
	"github.com/usftp/usftp/server/memfs"
	"github.com/usftp/usftp/wire"
)

// Serve works on any stream, here a pipe within the program.
func ExampleServe() {
	client, stream := net.Pipe()
	done := make(chan error)
	go func() { done <- server.Serve(context.Background(), stream, memfs.New(0), nil) }()

	// A client sends INIT and learns what the server supports.
	client.Write(wire.Init{Version: wire.Version}.Append(nil))
	reply := make([]byte, 9)
	io.ReadFull(client, reply)
	fmt.Println(wire.Type(reply[4]), reply[8])

	go io.Copy(io.Discard, client)
	client.Close()
	<-done
	// Output: VERSION 3
}

// motd is a backend with one file, which can only be described and read.
type motd struct{ text string }

func (m motd) Stat(_ context.Context, path string) (fs.FileInfo, error) {
	switch path {
	case "/":
		return motdInfo{name: "/", mode: fs.ModeDir | 0o555}, nil
	case "/motd":
		return motdInfo{name: "motd", size: int64(len(m.text)), mode: 0o444}, nil
	}
	return nil, fs.ErrNotExist
}

func (m motd) Open(_ context.Context, path string, flags uint32,
	_ wire.Attrs) (server.File, error) {
	switch {
	case path != "/motd":
		return nil, fs.ErrNotExist
	case flags != wire.OpenRead:
		return nil, fs.ErrPermission
	}
	return motdFile{strings.NewReader(m.text)}, nil
}

type motdFile struct{ *strings.Reader }

func (motdFile) Close() error { return nil }

type motdInfo struct {
	name string
	size int64
	mode fs.FileMode
}

func (i motdInfo) Name() string       { return i.name }
func (i motdInfo) Size() int64        { return i.size }
func (i motdInfo) Mode() fs.FileMode  { return i.mode }
func (i motdInfo) ModTime() time.Time { return time.Time{} }
func (i motdInfo) IsDir() bool        { return i.mode.IsDir() }
func (i motdInfo) Sys() any           { return nil }

// A backend needs only a few methods.
func ExampleFS() {
	view, err := server.NewView(motd{"welcome"}, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	info, err := view.Stat(context.Background(), "/motd")
	fmt.Println(info.Size(), err)
	fmt.Println(view.Remove(context.Background(), "/motd"))
	// Output:
	// 7 <nil>
	// operation unsupported
}

// A policy names the denied operations as OpenSSH's sftp-server does.
func ExamplePolicy() {
	_, err := server.NewView(memfs.New(0), &server.Policy{
		Denied: []string{"remove", "rmdir", "rename", "posix-rename"},
		Umask:  0o027,
		Quota:  server.NewQuota(10<<30, 100_000),
	})
	fmt.Println(err)
	// Output: <nil>
}

// Events are what happened, as values: for counters, audits or whatever follows an upload.
func ExampleEvent() {
	ours, theirs := net.Pipe()
	served := make(chan error)
	go func() {
		served <- server.Serve(context.Background(), theirs, memfs.New(0), &server.Options{
			Events: func(e server.Event) {
				switch e.Kind {
				case server.FileClosed:
					fmt.Println(e.Path, "uploaded:", e.Upload, e.Written)
				case server.TreeChanged:
					fmt.Println(e.Request, e.Path, e.To)
				}
			},
		})
	}()
	client, err := usftp.NewClientPipe(ours, ours)
	if err != nil {
		fmt.Println(err)
		return
	}
	f, err := client.Create("/draft")
	if err != nil {
		fmt.Println(err)
		return
	}
	f.Write([]byte("42\n"))
	f.Close()
	client.Rename("/draft", "/report")
	client.Close()
	<-served
	// Output:
	// /draft uploaded: true 3
	// rename /draft /report
}

// A view is for protocols of your own: it applies a policy and reports what is changed.
func ExampleNewView() {
	view, err := server.NewView(memfs.New(0), &server.Policy{Denied: []string{"remove"}})
	if err != nil {
		fmt.Println(err)
		return
	}
	log := slog.New(slog.NewTextHandler(os.Stdout, &slog.HandlerOptions{
		ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey {
				return slog.Attr{}
			}
			return a
		},
	}))
	view = view.Reporting(&server.Reporter{Logger: log})
	ctx := context.Background()
	report := view.Path("report")
	f, err := view.Create(ctx, report, wire.Attrs{})
	if err != nil {
		fmt.Println(err)
		return
	}
	_, err = f.WriteAt([]byte("42\n"), 0)
	fmt.Println(err, f.Close())
	fmt.Println(view.PosixRename(ctx, report, "/yesterday"))
	fmt.Println(view.Remove(ctx, "/yesterday"))
	// Output:
	// <nil> <nil>
	// level=INFO msg="tree changed" request=posix-rename path=/report to=/yesterday
	// <nil>
	// the operation is not allowed here
}

// A quota is shared by all sessions that may write to a directory.
func ExampleQuota() {
	ctx := context.Background()
	quota := server.NewQuota(1<<10, 0)
	view, err := server.NewView(memfs.New(0), &server.Policy{Quota: quota})
	if err != nil {
		fmt.Println(err)
		return
	}
	f, err := view.Create(ctx, "/f", wire.Attrs{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer f.Close()
	_, err = f.WriteAt(make([]byte, 1000), 0)
	fmt.Println(err)
	_, err = f.WriteAt(make([]byte, 1000), 1000)
	fmt.Println(errors.Is(err, server.ErrQuota))
	fmt.Println(quota.Usage())
	// Output:
	// <nil>
	// true
	// 1000 1
}

// A backend with attributes of its own returns them as the Sys of its FileInfo.
func ExampleAttrsOf() {
	owned := ownedInfo{motdInfo{name: "motd", mode: 0o644},
		wire.Attrs{Flags: wire.AttrUIDGID, UID: 7, GID: 8}}
	for _, info := range []fs.FileInfo{motdInfo{name: "motd", size: 5, mode: 0o644}, owned} {
		attrs := server.AttrsOf(info)
		fmt.Println(attrs.Has(wire.AttrSize), attrs.Size, attrs.Has(wire.AttrUIDGID), attrs.UID)
	}
	// Output:
	// true 5 false 0
	// false 0 true 7
}

type ownedInfo struct {
	motdInfo
	attrs wire.Attrs
}

func (i ownedInfo) Sys() any { return &i.attrs }

// Times that the protocol does not have become the nearest that it has.
func ExampleSeconds() {
	for _, year := range []int{1969, 2026, 2200} {
		fmt.Println(server.Seconds(time.Date(year, 1, 1, 0, 0, 0, 0, time.UTC)))
	}
	// Output:
	// 0
	// 1767225600
	// 4294967295
}
