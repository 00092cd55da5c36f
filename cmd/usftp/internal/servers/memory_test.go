//go:build linux

package servers_test

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/usftp/usftp/internal/endpoint/endpointtest"
	"github.com/usftp/usftp/internal/testenv"
	"github.com/usftp/usftp/sftptest"
	"github.com/usftp/usftp/wire"
)

// pkgSFTP is pkg/sftp's server in memory: testdata/pkgsftp, which .ci/hosts builds. USFTP_PKGSFTP
// names the program.
func pkgSFTP(t *testing.T, s *site) *host {
	program := os.Getenv("USFTP_PKGSFTP")
	if program == "" {
		testenv.Unavailable(t, "pkg/sftp's server ($USFTP_PKGSFTP)")
	}
	server := s.scripted(t, []string{program, s.dir})
	h := s.host(t, "127.0.0.1:"+server.port)
	h.dir, h.real, h.disk = "/", "", pkgFiles{t: t, server: server}
	return h
}

// pkgFiles are the files of testdata/pkgsftp, which it shows on its standard input and output.
type pkgFiles struct {
	endpointtest.Disk // what the steps do not need

	t      *testing.T
	server *scripted
}

type pkgAnswer struct {
	Err   string
	Names []string
	Kind  string
	Data  []byte
	Mode  uint32
	Time  int64
}

func (f pkgFiles) ask(method, name, target, data string) (a pkgAnswer) {
	f.t.Helper()
	must(f.t, json.NewEncoder(f.server.in).Encode(map[string]any{"Method": method,
		"Path": path.Join("/", name), "Target": target, "Data": []byte(data)}))
	must(f.t, f.server.in.Flush())
	line, err := f.server.out.ReadBytes('\n')
	must(f.t, err)
	must(f.t, json.Unmarshal(line, &a))
	return a
}

func (f pkgFiles) must(a pkgAnswer) {
	f.t.Helper()
	if a.Err != "" {
		f.t.Error(a.Err)
	}
}

func (f pkgFiles) Mkdir(name string)       { f.must(f.ask("Mkdir", name, "", "")) }
func (f pkgFiles) Write(name, data string) { f.must(f.ask("Put", name, "", data)) }

// Symlink makes a link with an absolute path: from a relative one the server would go to its root.
func (f pkgFiles) Symlink(text, name string) {
	name = path.Join("/", name)
	f.must(f.ask("Symlink", path.Join(path.Dir(name), text), name, ""))
}

func (f pkgFiles) Names(dir string) []string {
	a := f.ask("Names", dir, "", "")
	f.must(a)
	slices.Sort(a.Names)
	return a.Names
}

func (f pkgFiles) State(name string) string {
	switch a := f.ask("Lstat", name, "", ""); {
	case a.Err != "":
		return ""
	case fs.FileMode(a.Mode).IsDir():
		return "dir"
	case fs.FileMode(a.Mode)&fs.ModeSymlink != 0:
		return "-> " + f.ask("Readlink", name, "", "").Kind
	}
	a := f.ask("Get", name, "", "")
	f.must(a)
	return "= " + string(a.Data)
}

func (f pkgFiles) Attrs(name string) (fs.FileMode, time.Time) {
	a := f.ask("Lstat", name, "", "")
	f.must(a)
	return fs.FileMode(a.Mode).Perm(), time.Unix(a.Time, 0)
}

// played is a server that no registry has, as a script plays it, or the server itself where a
// variable names its program.
func played(banner string, script func(files func() *sftptest.Files) sftptest.Script,
	variable string, argv func(s *site, h *host, port int) (argv, env []string)) func(*testing.T,
	*site) *host {
	return func(t *testing.T, s *site) *host {
		if program := os.Getenv(variable); program != "" {
			h := s.host(t, "")
			port := testenv.FreePort(t)
			args, env := argv(s, h, port)
			h.addr = testenv.Daemon(t, port, env, append([]string{program}, args...)...)
			return h
		}
		var server *sftptest.Scripted
		server = sftptest.NewServer(t, script(func() *sftptest.Files { return server.Files }))
		server.Files.Mkdir("/files")
		h := s.host(t, serveSSH(t, s, banner, server))
		h.dir, h.real, h.disk = "/files", "", endpointtest.Memory(t, server.Files, "/files")
		return h
	}
}

// serveSSH lets everybody log in to a scripted server.
func serveSSH(t *testing.T, s *site, banner string, server *sftptest.Scripted) string {
	t.Helper()
	key, err := os.ReadFile(s.file("host"))
	must(t, err)
	signer, err := ssh.ParsePrivateKey(key)
	must(t, err)
	conf := &ssh.ServerConfig{ServerVersion: banner,
		PublicKeyCallback: func(ssh.ConnMetadata, ssh.PublicKey) (*ssh.Permissions, error) {
			return nil, nil
		}}
	conf.AddHostKey(signer)
	return testenv.Listen(t, func(conn net.Conn) {
		_, channels, requests, err := ssh.NewServerConn(conn, conf)
		if err != nil {
			return
		}
		go ssh.DiscardRequests(requests)
		for c := range channels {
			channel, requests, err := c.Accept()
			if err != nil {
				return
			}
			go func() {
				for r := range requests {
					sftp := r.Type == "subsystem" && strings.HasSuffix(string(r.Payload), "sftp")
					r.Reply(sftp, nil)
					if sftp {
						go server.Serve(channel)
					}
				}
			}()
		}
	}).String()
}

// likeSFTPGo plays SFTPGo as it is installed: 20 transfers for each client, and no symbolic links
// in its portable mode.
func likeSFTPGo(func() *sftptest.Files) sftptest.Script {
	return sftptest.Script{
		Extensions: []wire.ExtensionPair{{Name: wire.ExtStatVFS, Data: "2"}},
		Refuse:     []wire.Type{wire.TypeSymlink},
		Limits:     &wire.LimitsReply{MaxOpenHandles: 20, MaxRead: 32 << 10},
		Crowded:    wire.PermissionDenied,
	}
}

// likeWolfSSH plays wolfSSH: see wolfSSH_SFTP_read and SFTP_SetFileAttributes in its wolfsftp.c.
func likeWolfSSH(files func() *sftptest.Files) sftptest.Script {
	return sftptest.Script{Extensions: []wire.ExtensionPair{},
		Intercept: func(q sftptest.Request) []sftptest.Action {
			switch q.Type {
			case wire.TypeSymlink, wire.TypeReadlink, wire.TypeExtended:
				return []sftptest.Action{sftptest.Refuse(wire.Failure,
					"Unknown/Unsupported packet type")}
			case wire.TypeStat, wire.TypeLstat:
				if !files().Exists(q.Path) {
					return []sftptest.Action{sftptest.Refuse(wire.Failure, "STAT error")}
				}
			case wire.TypeSetstat, wire.TypeFsetstat: // neither sizes nor times
				if is, err := files().Lstat(q.Path); err == nil &&
					q.Attrs.Flags&wire.AttrPermissions != 0 {
					files().SetMode(q.Path, wire.FileMode(is.Permissions).Type()|
						wire.FileMode(q.Attrs.Permissions).Perm())
				}
				return []sftptest.Action{sftptest.Refuse(wire.OK, "")}
			}
			return nil
		}}
}

// sftpGo is how SFTPGo is started.
func sftpGo(s *site, h *host, port int) (argv, env []string) {
	key, _ := os.ReadFile(s.file("id.pub"))
	h.dir = "/"
	return []string{"portable", "-c", s.dir, "--sftpd-port", fmt.Sprint(port), "-d",
			s.file("files"), "-u", h.user, "-k", strings.TrimSpace(string(key)), "-g", "*"},
		[]string{"SFTPGO_SFTPD__HOST_KEYS=" + s.file("host"), "SFTPGO_LOG_FILE_PATH="}
}

// wolfSSH is how wolfSSH's example server is started, which has a host key of its own and looks for
// it in its directory.
func wolfSSH(s *site, h *host, port int) (argv, env []string) {
	os.Remove(s.file("host.pub"))
	return []string{"-p", fmt.Sprint(port), "-d", s.file("files"), "-I", h.user + ":" +
		s.file("id.pub")}, nil
}
