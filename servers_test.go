package usftp_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/crypto/ssh"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/internal/private"
	"github.com/usftp/usftp/internal/testenv"
	"github.com/usftp/usftp/server"
	"github.com/usftp/usftp/server/memfs"
	"github.com/usftp/usftp/server/osfs"
	"github.com/usftp/usftp/sftptest"
	"github.com/usftp/usftp/sftptest/opensshd"
	"github.com/usftp/usftp/wire"
)

// TestOurServer: package server, which carries out requests concurrently, with both of its
// backends.
func TestOurServer(t *testing.T) {
	dir, err := osfs.New(t.TempDir())
	ok(t, err)
	for name, backend := range map[string]server.FS{"memfs": memfs.New(64 << 20), "osfs": dir} {
		t.Run(name, func(t *testing.T) {
			client, end := net.Pipe()
			served := make(chan error, 1)
			go func() { served <- server.Serve(context.Background(), end, backend, nil) }()
			c := must[*usftp.Client](t)(usftp.NewClientPipe(client, client,
				usftp.WithServerVersion("SSH-2.0-usftp")))
			ok(t, c.Mkdir("/d"))
			workout(t, c, "/d")
			items := func(yield func(int) bool) {
				for i := 0; i < 3000 && yield(i); i++ {
				}
			}
			for result := range usftp.Batch(items, 100, func(i int) *usftp.Pending[*usftp.File] {
				return c.Async().Create(fmt.Sprintf("/d/%d", i))
			}) {
				ok(t, result.Err)
				ok(t, result.Value.Close())
			}
			files := must[[]*usftp.File](t)(c.ReadDir("/d"))
			seen := make(map[string]bool)
			for _, f := range files {
				seen[f.Name()] = true
			}
			if len(files) != 3000 || len(seen) != 3000 {
				t.Errorf("%d entries, %d different ones", len(files), len(seen))
			}
			data := noise(3 << 20)
			ok(t, c.WriteFile("/f", data, 0o600))
			if hashes, err := c.CheckFile("/f", usftp.CheckFile{Algorithms: []string{"md5"},
				BlockSize: 1 << 20}); err != nil ||
				!bytes.Equal(hashes.Hashes[2], md5Of(data[2<<20:])) {
				t.Errorf("%+v, %v", hashes, err)
			}
			if n, err := c.CopyFile("/f", "/g"); n != 3<<20 || err != nil {
				t.Error(n, err)
			}
			if got := must[[]byte](t)(c.ReadFile("/g")); !bytes.Equal(got, data) {
				t.Error("the copy differs")
			}
			ok(t, c.Close())
			<-served
		})
	}
}

// TestHugeListing: a directory in one packet of 7 MB, as some servers send it.
func TestHugeListing(t *testing.T) {
	var reply wire.Names
	for i := range 50_000 {
		name := fmt.Sprintf("a file with quite a long name, number %d", i)
		reply.Names = append(reply.Names, wire.Name{Filename: name,
			LongName: strings.Repeat("-", 60) + name,
			Attrs:    wire.Attrs{Flags: wire.AttrPermissions, Permissions: 0o100644}})
	}
	sent := false
	r := newRig(t, sftptest.Script{Intercept: func(request sftptest.Request) []sftptest.Action {
		if request.Type != wire.TypeReaddir || sent {
			return nil
		}
		sent = true
		return []sftptest.Action{sftptest.ReplyBytes(string(reply.Append(nil, request.ID)))}
	}}, 0)
	if n := len(reply.Append(nil, 0)); n < 7<<20 {
		t.Fatalf("the packet has %d bytes", n)
	}
	files, err := r.ReadDir("/")
	if len(files) != 50_000 || err != nil {
		t.Errorf("%d entries, %v", len(files), err)
	}
}

func TestRoundTripThroughOpenSSH(t *testing.T) {
	client := startServer(t)
	dir := t.TempDir()
	for _, size := range []int{0, 1, 1000, 32768, 261120, 261121, 3*261120 + 7, 10 << 20} {
		name, data := randomFile(t, dir, size)
		f, err := client.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		h := sha256.New()
		n, err := f.WriteTo(h)
		if err != nil || n != int64(size) || !bytes.Equal(h.Sum(nil), hash(data)) {
			t.Errorf("WriteTo of %d bytes: %d, %v", size, n, err)
		}
		if err := f.Close(); err != nil {
			t.Error(err)
		}
		target := filepath.Join(dir, "target")
		g, err := client.Create(target)
		if err != nil {
			t.Fatal(err)
		}
		n, err = g.ReadFrom(bytes.NewReader(data))
		if err != nil || n != int64(size) {
			t.Errorf("ReadFrom of %d bytes: %d, %v", size, n, err)
		}
		if err := g.Close(); err != nil {
			t.Error(err)
		}
		if got, err := os.ReadFile(target); err != nil || !bytes.Equal(got, data) {
			t.Errorf("the uploaded file of %d bytes differs: %v", size, err)
		}
	}
}

func hash(p []byte) []byte { h := sha256.Sum256(p); return h[:] }

// startPython runs a server written in Python, which prints its port, and logs in.
func startPython(t *testing.T, module, script string) *usftp.Client {
	t.Helper()
	interpreter := testenv.Python(t, module)
	dir := t.TempDir()
	_, key, err := ed25519.GenerateKey(rand.Reader)
	ok(t, err)
	block := must[*pem.Block](t)(ssh.MarshalPrivateKey(key, ""))
	ok(t, os.WriteFile(filepath.Join(dir, "key"), pem.EncodeToMemory(block), 0o600))
	ok(t, os.WriteFile(filepath.Join(dir, "server.py"), []byte(script), 0o600))
	cmd := exec.Command(interpreter, "-W", "ignore", filepath.Join(dir, "server.py"),
		filepath.Join(dir, "key"))
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe() // closing it tells the server to stop
	ok(t, err)
	out, err := cmd.StdoutPipe()
	ok(t, err)
	ok(t, cmd.Start())
	t.Cleanup(func() {
		stdin.Close()
		cmd.Wait()
	})
	port, err := bufio.NewReader(out).ReadString('\n')
	ok(t, err)
	conn, err := ssh.Dial("tcp", "127.0.0.1:"+strings.TrimSpace(port), &ssh.ClientConfig{
		User: "me", Auth: []ssh.AuthMethod{ssh.Password("secret")},
		HostKeyCallback: ssh.InsecureIgnoreHostKey(),
	})
	ok(t, err)
	t.Cleanup(func() { conn.Close() })
	client, err := usftp.NewClient(conn)
	ok(t, err)
	t.Cleanup(func() { client.Close() })
	return client
}

const asyncSSH = `
import asyncio, sys, asyncssh
class Server(asyncssh.SSHServer):
    def password_auth_supported(self): return True
    def validate_password(self, user, password): return password == "secret"
async def main():
    server = await asyncssh.listen("127.0.0.1", 0, server_host_keys=[sys.argv[1]], server_factory=Server, sftp_factory=True)
    print(server.sockets[0].getsockname()[1], flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    server.abort() if hasattr(server, "abort") else server.close()
asyncio.run(main())
`

// TestAsyncSSHServer: AsyncSSH's server answers out of order, and takes SYMLINK's paths in the
// draft's order.
func TestAsyncSSHServer(t *testing.T) {
	workout(t, startPython(t, "asyncssh", asyncSSH), t.TempDir())
}

const paramikoServer = `
import os, socket, sys, threading, paramiko
from paramiko import SFTPServerInterface, SFTPServer, SFTPAttributes, SFTPHandle, SFTP_OK
def guarded(f):
    def wrapper(*args):
        try:
            r = f(*args)
            return SFTP_OK if r is None else r
        except OSError as e:
            return SFTPServer.convert_errno(e.errno)
    return wrapper
class Files(SFTPServerInterface):
    @guarded
    def list_folder(self, path):
        out = []
        for name in os.listdir(path):
            attr = SFTPAttributes.from_stat(os.lstat(os.path.join(path, name)))
            attr.filename = name
            out.append(attr)
        return out
    @guarded
    def stat(self, path): return SFTPAttributes.from_stat(os.stat(path))
    @guarded
    def lstat(self, path): return SFTPAttributes.from_stat(os.lstat(path))
    @guarded
    def open(self, path, flags, attr):
        fd = os.open(path, flags, 0o666)
        mode = "r+b" if flags & os.O_RDWR else "wb" if flags & os.O_WRONLY else "rb"
        handle = SFTPHandle(flags)
        handle.filename = path
        handle.readfile = handle.writefile = os.fdopen(fd, mode)
        return handle
    @guarded
    def remove(self, path): os.remove(path)
    @guarded
    def rename(self, old, new): os.rename(old, new)
    @guarded
    def posix_rename(self, old, new): os.replace(old, new)
    @guarded
    def mkdir(self, path, attr): os.mkdir(path)
    @guarded
    def rmdir(self, path): os.rmdir(path)
    @guarded
    def chattr(self, path, attr): SFTPServer.set_file_attr(path, attr)
    @guarded
    def symlink(self, target, path): os.symlink(target, path)
    @guarded
    def readlink(self, path): return os.readlink(path)
class Server(paramiko.ServerInterface):
    def check_auth_password(self, user, password):
        return paramiko.AUTH_SUCCESSFUL if password == "secret" else paramiko.AUTH_FAILED
    def check_channel_request(self, kind, chanid): return paramiko.OPEN_SUCCEEDED
listener = socket.create_server(("127.0.0.1", 0))
print(listener.getsockname()[1], flush=True)
key = paramiko.Ed25519Key.from_private_key_file(sys.argv[1])
def serve():
    while True:
        conn, _ = listener.accept()
        transport = paramiko.Transport(conn)
        transport.add_server_key(key)
        transport.set_subsystem_handler("sftp", SFTPServer, Files)
        transport.start_server(server=Server())
threading.Thread(target=serve, daemon=True).start()
sys.stdin.read()
os._exit(0)
`

// TestParamikoServer: paramiko's server hashes files with its own form of check-file.
func TestParamikoServer(t *testing.T) {
	client := startPython(t, "paramiko", paramikoServer)
	dir := t.TempDir()
	workout(t, client, dir)
	name := filepath.Join(dir, "f")
	data := noise(1 << 20)
	ok(t, client.WriteFile(name, data, 0o600))
	hashes, err := client.CheckFile(name,
		usftp.CheckFile{Algorithms: []string{"md5"}, BlockSize: 1 << 16})
	if err != nil || len(hashes.Hashes) != 16 ||
		fmt.Sprintf("%x", hashes.Hashes[3]) != fmt.Sprintf("%x", md5Of(data[3<<16:4<<16])) {
		t.Errorf("%+v, %v", hashes, err)
	}
	// Its set_file_attr empties a file before it sets the size.
	err = client.Truncate(name, 1000)
	got := must[[]byte](t)(os.ReadFile(name))
	if !errors.Is(err, errors.ErrUnsupported) || !bytes.Equal(got, data) {
		t.Errorf("cut to 1000 bytes: %v; %d bytes, different: %t", err, len(got), !bytes.Equal(got, data))
	}
	ok(t, client.Truncate(name, 0))
	if got := must[[]byte](t)(os.ReadFile(name)); len(got) > 0 {
		t.Errorf("the empty file has %d bytes", len(got))
	}
}

func TestOpenSSHServer(t *testing.T) {
	for _, version := range []string{"", openSSH} {
		workout(t, startServer(t, usftp.WithServerVersion(version)), t.TempDir())
	}
}

// TestOverSSH: the whole way, over SSH to OpenSSH's own server, whose version line says that it
// works in order.
func TestOverSSH(t *testing.T) {
	server := opensshd.Start(t, opensshd.Options{})
	key := must[[]byte](t)(os.ReadFile(server.IdentityFile))
	signer := must[ssh.Signer](t)(ssh.ParsePrivateKey(key))
	hostKey := must[[]byte](t)(os.ReadFile(server.HostKeys[0] + ".pub"))
	public, _, _, _, err := ssh.ParseAuthorizedKey(hostKey)
	ok(t, err)
	conn, err := ssh.Dial("tcp", fmt.Sprintf("%s:%d", server.Host, server.Port), &ssh.ClientConfig{
		User: server.User, Auth: []ssh.AuthMethod{ssh.PublicKeys(signer)},
		HostKeyCallback: ssh.FixedHostKey(public),
	})
	ok(t, err)
	defer conn.Close()
	client := must[*usftp.Client](t)(usftp.NewClient(conn))
	if !private.OfClient(client).WorksInOrder() {
		t.Error("OpenSSH's server is not known to work in order")
	}
	workout(t, client, t.TempDir())
	ok(t, client.Close())
	again := must[*usftp.Client](t)(usftp.NewClient(conn)) // the connection is still open
	must[string](t)(again.Getwd())
	ok(t, again.Close())
}
