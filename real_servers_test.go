package usftp_test

import (
	"bufio"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/crypto/ssh"

	"github.com/usftp/usftp"
)

// python returns an interpreter that has a module: the one that USFTP_PYTHON names, or the
// system's.
func python(t *testing.T, module string) string {
	t.Helper()
	name := os.Getenv("USFTP_PYTHON")
	if name == "" {
		name = "python3"
	}
	if err := exec.Command(name, "-c", "import "+module).Run(); err != nil {
		if os.Getenv("USFTP_REQUIRE") != "" {
			t.Fatalf("%s has no module %s", name, module)
		}
		t.Skipf("%s has no module %s, whose server this test is about", name, module)
	}
	return name
}

// startPython runs a server written in Python, which prints its port, and logs in.
func startPython(t *testing.T, module, script string) *usftp.Client {
	t.Helper()
	interpreter := python(t, module)
	dir := t.TempDir()
	_, key, err := ed25519.GenerateKey(rand.Reader)
	ok(t, err)
	block := must[*pem.Block](t)(ssh.MarshalPrivateKey(key, ""))
	ok(t, os.WriteFile(filepath.Join(dir, "key"), pem.EncodeToMemory(block), 0o600))
	ok(t, os.WriteFile(filepath.Join(dir, "server.py"), []byte(script), 0o600))
	cmd := exec.Command(interpreter, "-W", "ignore", filepath.Join(dir, "server.py"),
		filepath.Join(dir, "key"))
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe() // its end tells the server to stop
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
		User: "me", Auth: []ssh.AuthMethod{ssh.Password("secret")}, HostKeyCallback: ssh.InsecureIgnoreHostKey(),
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

// TestAsyncSSHServer: AsyncSSH's server answers out of order, and takes SYMLINK's paths as the
// draft has them.
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

// TestParamikoServer: paramiko's server hashes files by a form of check-file of its own.
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
}
