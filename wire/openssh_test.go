package wire

import (
	"bytes"
	"context"
	"encoding/binary"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/usftp/usftp/internal/testenv"
)

// sftpServer is OpenSSH's sftp-server on two pipes, asked one thing at a time.
type sftpServer struct {
	t       *testing.T
	dir     string // where it runs, an empty directory
	in      io.Writer
	out     io.Reader
	offered map[string]string // extensions and their versions
}

// startServer starts OpenSSH's sftp-server in a directory of its own, and greets it.
func startServer(t *testing.T) *sftpServer {
	t.Helper()
	var path string
	for _, candidate := range []string{"/usr/lib/openssh", "/usr/libexec/openssh", "/usr/lib/ssh",
		"/usr/libexec"} {
		candidate = filepath.Join(candidate, "sftp-server")
		if _, err := os.Stat(candidate); err == nil {
			path = candidate
		}
	}
	if path == "" {
		testenv.Unavailable(t, "OpenSSH's sftp-server")
	}
	// as the server, which knows no other name of it, will say it
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	// t.Context ends before Cleanup
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	server := exec.CommandContext(ctx, path)
	server.Dir, server.Stderr = dir, os.Stderr
	in, out := testenv.Pipes(t, server)
	t.Cleanup(func() {
		in.Close()
		if err := server.Wait(); err != nil && !t.Failed() {
			t.Errorf("sftp-server: %v", err)
		}
		cancel()
	})

	s := &sftpServer{t: t, dir: dir, in: in, out: out, offered: make(map[string]string)}
	var reply InitReply
	if kind, body := s.exchange(Init{Version: Version}.Append(nil)); kind != TypeVersion {
		t.Fatalf("INIT was answered by %v", kind)
	} else if err := reply.Parse(body); err != nil || reply.Version != Version {
		t.Fatalf("INIT was answered by %+v, %v", reply, err)
	}
	for _, e := range reply.Extensions {
		s.offered[e.Name] = e.Data
	}
	return s
}

// exchange sends a packet and returns the type and body of the one that answers it.
func (s *sftpServer) exchange(packet []byte) (Type, []byte) {
	s.t.Helper()
	if _, err := s.in.Write(packet); err != nil {
		s.t.Fatal(err)
	}
	var length [LengthSize]byte
	if _, err := io.ReadFull(s.out, length[:]); err != nil {
		s.t.Fatal(err)
	}
	reply := make([]byte, min(binary.BigEndian.Uint32(length[:]), MaxPacket))
	if _, err := io.ReadFull(s.out, reply); err != nil {
		s.t.Fatal(err)
	}
	kind, id, body, err := ParseHeader(reply)
	if err != nil || kind != TypeVersion && id != testID {
		s.t.Fatalf("answer %v of id %#x, %v", kind, id, err)
	}
	return kind, body
}

// ask sends a request, which must be answered by a packet of the given type, and parses that into
// reply.
func (s *sftpServer) ask(request interface{ Append([]byte, uint32) []byte }, kind Type,
	reply message) {
	s.t.Helper()
	got, body := s.exchange(request.Append(nil, testID))
	if got != kind {
		s.t.Fatalf("%+v: answered by %v %q, want %v", request, got, body, kind)
	}
	if err := reply.Parse(body); err != nil {
		s.t.Fatalf("%+v: %v: %v", request, got, err)
	}
	// What the server wrote, we must write likewise.
	if packet := reply.Append(nil, testID); !bytes.Equal(packet[HeaderSize:], body) {
		s.t.Errorf("%+v: answered by\n% x, which we write as\n% x", request, body,
			packet[HeaderSize:])
	}
}

// do sends a request that must succeed.
func (s *sftpServer) do(request interface{ Append([]byte, uint32) []byte }) {
	s.t.Helper()
	var status Status
	s.ask(request, TypeStatus, &status)
	if status.Code != OK {
		s.t.Errorf("%+v: %v", request, status.Code)
	}
}

// name sends a request that must be answered by one name, and returns it.
func (s *sftpServer) name(request interface{ Append([]byte, uint32) []byte }) string {
	s.t.Helper()
	var names Names
	s.ask(request, TypeName, &names)
	if len(names.Names) != 1 {
		s.t.Fatalf("%+v: answered by %d names", request, len(names.Names))
	}
	return names.Names[0].Filename
}

// has reports whether the server offers an extension, which it must do in the version that we know.
func (s *sftpServer) has(extension, version string) bool {
	s.t.Helper()
	offered, ok := s.offered[extension]
	if ok && offered != version {
		s.t.Errorf("%s is offered in version %q, want %q", extension, offered, version)
	}
	if !ok {
		s.t.Logf("this sftp-server has no %s", extension)
	}
	return ok
}

func (s *sftpServer) at(name string) string { return filepath.Join(s.dir, name) }

func (s *sftpServer) open(path string, flags uint32) []byte {
	s.t.Helper()
	var handle Handle
	s.ask(Open{Path: path, Flags: flags}, TypeHandle, &handle)
	return handle.Handle
}

func TestOpenSSHUnderstandsRequests(t *testing.T) {
	s := startServer(t)

	if got := s.name(PathRequest{Type: TypeRealpath, Path: "."}); got != s.dir {
		t.Errorf("REALPATH: %q, want %q", got, s.dir)
	}
	s.do(PathAttrs{Type: TypeMkdir, Path: "d",
		Attrs: Attrs{Flags: AttrPermissions, Permissions: 0o700}})

	handle := s.open("d/f", OpenRead|OpenWrite|OpenCreate|OpenExclusive)
	s.do(Write{Handle: handle, Offset: 2, Data: []byte("hello")})
	s.do(Fsetstat{Handle: handle, Attrs: Attrs{Flags: AttrSize | AttrPermissions | AttrACModTime,
		Size: 6, Permissions: 0o640,
		ATime: 1e9, MTime: 1e9 + 1}})
	var attrs AttrsReply
	s.ask(HandleRequest{Type: TypeFstat, Handle: handle}, TypeAttrs, &attrs)
	if a := attrs.Attrs; a.Size != 6 || a.Permissions != 0o100640 || a.ATime != 1e9 ||
		a.MTime != 1e9+1 {
		t.Errorf("FSTAT: %+v", a)
	}
	var data Data
	s.ask(Read{Handle: handle, Offset: 1, Length: 100}, TypeData, &data)
	if string(data.Data) != "\x00hell" {
		t.Errorf("READ: %q", data.Data)
	}
	var status Status
	s.ask(Read{Handle: handle, Offset: 6, Length: 100}, TypeStatus, &status)
	if status.Code != EOF || status.Message == "" {
		t.Errorf("READ at the end: %+v", status)
	}
	s.do(HandleRequest{Type: TypeClose, Handle: handle})

	s.do(Symlink{First: "d/f", Second: "link"}) // OpenSSH takes the target first
	if got := s.name(PathRequest{Type: TypeReadlink, Path: "link"}); got != "d/f" {
		t.Errorf("READLINK: %q", got)
	}
	s.do(Rename{OldPath: "d/f", NewPath: "d/g"})
	s.ask(PathRequest{Type: TypeStat, Path: "link"}, TypeStatus, &status)
	if status.Code != NoSuchFile {
		t.Errorf("STAT of a link to nothing: %v", status.Code)
	}
	s.ask(PathRequest{Type: TypeLstat, Path: "link"}, TypeAttrs, &attrs)
	if info, err := os.Lstat(s.at("link")); err != nil ||
		FileMode(attrs.Attrs.Permissions) != info.Mode() {
		t.Errorf("LSTAT: %v, want %v, %v", FileMode(attrs.Attrs.Permissions), info.Mode(), err)
	}

	var listing Handle
	s.ask(PathRequest{Type: TypeOpendir, Path: "d"}, TypeHandle, &listing)
	var names Names
	s.ask(HandleRequest{Type: TypeReaddir, Handle: listing.Handle}, TypeName, &names)
	var found bool
	for _, n := range names.Names {
		found = found || n.Filename == "g" && n.Attrs.Size == 6
	}
	if !found || len(names.Names) != 3 {
		t.Errorf("READDIR: %+v", names.Names)
	}
	s.do(HandleRequest{Type: TypeClose, Handle: listing.Handle})
	s.do(PathRequest{Type: TypeRemove, Path: "d/g"})
	s.do(PathRequest{Type: TypeRmdir, Path: "d"})
}
