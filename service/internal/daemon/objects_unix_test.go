//go:build unix

package daemon

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/internal/servetest"
	"github.com/usftp/usftp/internal/testenv"
	"github.com/usftp/usftp/pool"
	"github.com/usftp/usftp/server/objectfs"
	"github.com/usftp/usftp/service/internal/s3bucket"
	"github.com/usftp/usftp/service/internal/s3bucket/s3test"
	"github.com/usftp/usftp/service/internal/store/storetest"
	"github.com/usftp/usftp/sftptest/opensshd"
	"github.com/usftp/usftp/transfer"
)

// withObjects writes a configuration of users "alice", with a quota, and "bob", who may only read,
// whose root is below the same prefix of a bucket, and returns what it names.
func withObjects(t *testing.T) (home, key, file string, bucket *s3bucket.Bucket) {
	t.Helper()
	endpoint := s3test.Storage(t, "bucket")
	home, key = servetest.HomeWithKey(t)
	file = filepath.Join(home, "usftpd.toml")
	writeFile(t, file, []byte(`listen = ["127.0.0.1:0"]
[storage]
endpoint = "`+endpoint+`"
region = "us-east-1"
path_style = true
keys = "s3.keys"
memory = "64MiB"
[[users]]
name = "alice"
root = "s3://bucket/some/prefix"
authorized_keys = "id.pub"
quota_bytes = "100MB"
[[users]]
name = "bob"
root = "s3://bucket/some/prefix/"
authorized_keys = "id.pub"
read_only = true
`))
	keys := filepath.Join(home, "s3.keys")
	writeFile(t, keys, []byte("[default]\naws_access_key_id = "+s3test.AccessKey+
		"\naws_secret_access_key = "+s3test.SecretKey+"\n"))
	if err := os.Chmod(keys, 0o600); err != nil {
		t.Fatal(err)
	}
	bucket, err := s3bucket.New("bucket", s3bucket.Config{Endpoint: endpoint, Region: "us-east-1",
		PathStyle: true, Keys: keys})
	if err != nil {
		t.Fatal(err)
	}
	return home, key, file, bucket
}

// TestClockOfStorage: the start says if this machine's clock differs from the storage's.
func TestClockOfStorage(t *testing.T) {
	t.Parallel()
	home, _, file, _ := withObjects(t)
	config, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(config), `endpoint = "`)
	endpoint, _, _ := strings.Cut(rest, `"`)
	target, err := url.Parse(endpoint)
	if err != nil {
		t.Fatal(err)
	}
	proxy := httputil.NewSingleHostReverseProxy(target)
	proxy.ModifyResponse = func(r *http.Response) error {
		r.Header.Set("Date", time.Now().Add(7*time.Minute).UTC().Format(http.TimeFormat))
		return nil
	}
	other := httptest.NewServer(proxy)
	defer other.Close()
	writeFile(t, file, bytes.Replace(config, []byte(endpoint), []byte(other.URL), 1))
	s := servetest.Start(t, home, "usftpd", "--config", file)
	s.Wait("S3 refuses requests if clocks differ by 15 minutes", func(f map[string]any) bool {
		return strings.Contains(f["differs"].(string), "behind the storage's")
	})
	s.End(syscall.SIGTERM, 0)
}

// TestObjects: a bucket is served to OpenSSH's sftp. What a client that is killed has sent is not
// published, and is gone on with after a restart; and quotas hold.
func TestObjects(t *testing.T) {
	t.Parallel()
	home, key, file, bucket := withObjects(t)
	data := randomData(40_000_000)
	writeFile(t, filepath.Join(home, "half"), data)
	writeFile(t, filepath.Join(home, "big"), data[:20_000_000])
	writeFile(t, filepath.Join(home, "small"), data[:500_000])
	s := servetest.Start(t, home, "usftpd", "--config", file)
	s.Wait("the storage does not check everything", nil)
	sftp := func(user, commands string) {
		t.Helper()
		if out, err := s.SFTP(user, key, commands); err != nil {
			t.Fatalf("%s: %s%v\n%s\n%s", user, commands, err, out, s.Log)
		}
	}
	sftp("alice", "mkdir d\nput small d/small\nput big\nget big big.back\n")
	servetest.Same(t, data[:20_000_000], filepath.Join(home, "big.back"))
	sftp("bob", "get d/small small.back\n")
	servetest.Same(t, data[:500_000], filepath.Join(home, "small.back"))

	killHalfWay(t, s, key, bucket)
	if _, err := bucket.Head(t.Context(), "some/prefix/half"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("half a file is there: %v", err)
	}
	s.End(syscall.SIGTERM, 0)
	s = servetest.Start(t, home, "usftpd", "--config", file)
	sftp("alice", "reput half\nget half half.back\n")
	servetest.Same(t, data, filepath.Join(home, "half.back"))
	s.Wait("file closed", func(f map[string]any) bool {
		return f["path"] == "/half" && f["written"].(float64) < 33_000_000
	})

	full := func() {
		t.Helper()
		if out, err := s.SFTP("alice", key, "put half second\n"); err == nil {
			t.Errorf("40 MB beside 60.5 under a quota of 100 MB:\n%s", out)
		}
		if _, err := bucket.Head(t.Context(), "some/prefix/second"); !errors.Is(err,
			fs.ErrNotExist) {
			t.Errorf("what went beyond the quota is there: %v", err)
		}
	}
	full()
	s.Cmd.Process.Signal(syscall.SIGHUP)
	s.Wait("quota counted", func(f map[string]any) bool {
		return f["root"] == "s3://bucket/some/prefix" && f["bytes"] == 60_500_000.0 &&
			f["files"] == 4.0
	})
	s.End(syscall.SIGTERM, 0)

	s = servetest.Start(t, home, "usftpd", "--config", file)
	full()
	sftp("alice", "get half half.again\nrename big d/big\nrm half\nput half second\n")
	servetest.Same(t, data, filepath.Join(home, "half.again"))
}

// killHalfWay kills a client that is uploading.
func killHalfWay(t *testing.T, s *servetest.Server, key string, bucket *s3bucket.Bucket) {
	t.Helper()
	client, hangUp := upload(t, s, "alice", key, bucket, "some/prefix/half")
	client.Process.Kill()
	if err := client.Wait(); err == nil {
		t.Error("the client was done before it was killed")
	}
	hangUp()
	s.Wait("file abandoned", func(f map[string]any) bool { return f["path"] == "/half" })
}

// upload runs a client that uploads "half", 40 MB, and returns as soon as the storage has its first
// parts. The client does not get to the end. Its server hears that it has gone when hangUp is
// called.
func upload(t *testing.T, s *servetest.Server, user, key string, bucket *s3bucket.Bucket,
	object string) (client *exec.Cmd, hangUp func()) {
	t.Helper()
	way, hangUp := heldUp(t, s)
	cmd := exec.Command(opensshd.Find(t, "sftp"),
		way.SSHFlags("-i", key, "-b", "-", user+"@127.0.0.1")...)
	cmd.Dir, cmd.Stdin = s.Cmd.Dir, strings.NewReader("put half\n")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	untilStored(t, bucket, object)
	return cmd, hangUp
}

// untilStored waits for the first parts of an upload.
func untilStored(t *testing.T, bucket *s3bucket.Bucket, prefix string) {
	t.Helper()
	testenv.Until(t, "three parts are stored", func() bool {
		uploads, _, err := bucket.ListUploads(t.Context(), prefix, "")
		if err != nil || len(uploads) != 1 {
			return false
		}
		parts, _, err := bucket.ListParts(t.Context(), uploads[0].Key, uploads[0].ID, 0)
		return err == nil && len(parts) >= 3 && parts[2].Number == 3 // they may come in any order
	})
}

// heldUp returns a way to a server that carries 30 MB of what a client sends, and holds back the
// rest until hangUp ends the connection.
func heldUp(t *testing.T, s *servetest.Server) (way *servetest.Server, hangUp func()) {
	t.Helper()
	over := make(chan struct{})
	hangUp = sync.OnceFunc(func() { close(over) })
	address := testenv.Listen(t, func(near net.Conn) {
		defer near.Close()
		far, err := net.Dial("tcp", "127.0.0.1:"+s.Port)
		if err != nil {
			t.Error(err)
			return
		}
		defer far.Close()
		go io.CopyN(far, near, 30_000_000)
		go func() {
			io.Copy(near, far)
			hangUp()
		}()
		<-over
	})
	t.Cleanup(hangUp)
	held := *s
	held.Port = strconv.Itoa(address.Port)
	return &held, hangUp
}

// TestObjectsRefused: storage that cannot be used is one line at the start that says what to do.
func TestObjectsRefused(t *testing.T) {
	t.Parallel()
	home, _, file, _ := withObjects(t)
	text, keys := string(readFile(t, file)), string(readFile(t, filepath.Join(home, "s3.keys")))
	endpoint := strings.Split(strings.SplitAfter(text, "endpoint = \"")[1], `"`)[0]
	refused := fmt.Sprintf("http://127.0.0.1:%d", testenv.RefusedPort(t))
	for _, one := range []struct{ config, keys, says string }{
		{text, strings.ReplaceAll(keys, "= "+s3test.AccessKey, "= other"),
			"bucket bucket: the storage does not know the access key: correct it"},
		{text, strings.ReplaceAll(keys, "= "+s3test.SecretKey, "= other"),
			"bucket bucket: the secret key is not that of the access key: correct it"},
		{text, "nothing", "bucket bucket: no keys in "},
		{strings.ReplaceAll(text, "s3://bucket", "s3://another"), keys,
			"bucket another: make the bucket, or correct its name"},
		{strings.ReplaceAll(text, endpoint, refused), keys, "bucket bucket: " + refused +
			" does not answer: see to it, or correct the endpoint: "},
	} {
		writeFile(t, file, []byte(one.config))
		writeFile(t, filepath.Join(home, "s3.keys"), []byte(one.keys))
		got := run(t, home, "", "--config", file)
		lines := strings.Split(strings.TrimSpace(got.stderr), "\n")
		if last := lines[len(lines)-1]; got.code != 1 ||
			!strings.HasPrefix(last, "usftpd: cannot serve s3://") ||
			!strings.Contains(last, one.says) {
			t.Errorf("want %q: %+v", one.says, got)
		}
	}
}

// TestSweep: what nobody goes on with is removed after a while.
func TestSweep(t *testing.T) {
	t.Parallel()
	_, _, file, bucket := withObjects(t)
	id, err := bucket.CreateUpload(t.Context(), "some/prefix/old")
	if err != nil {
		t.Fatal(err)
	}
	made, err := readConfig(file)
	if err != nil {
		t.Fatal(err)
	}
	o := newObjects(made.storage, nil, &sweeper{log: slog.New(slog.DiscardHandler),
		quotas: noQuotas})
	if _, err := o.open(t.Context(), made.Users[0].Root); err != nil {
		t.Fatal(err)
	}
	has := func() bool {
		list, _, err := bucket.ListUploads(t.Context(), "", "")
		if err != nil {
			t.Fatal(err)
		}
		return len(list) == 1 && list[0] == objectfs.Started{Key: "some/prefix/old", ID: id,
			Begun: list[0].Begun}
	}
	if o.sweeper.once(t.Context(), sweepAge); !has() {
		t.Error("an upload that has just begun is removed")
	}
	if o.sweeper.once(t.Context(), -sweepAge); has() {
		t.Error("an old upload stays")
	}
}

// TestObjectsOnTwoNodes: a node refuses a second writer of what another node's client writes, and
// goes on with what that node has left when it was killed.
func TestObjectsOnTwoNodes(t *testing.T) {
	t.Parallel()
	home, key, file, bucket := withObjects(t)
	writeFile(t, file, []byte(strings.Replace(string(readFile(t, file)), "[storage]",
		"[store]\nurl = \""+storetest.Postgres(t)+"\"\n[storage]", 1)))
	data := randomData(40_000_000)
	writeFile(t, filepath.Join(home, "half"), data)
	one := servetest.Start(t, home, "usftpd", "--config", file)
	two := servetest.Start(t, home, "usftpd", "--config", file)
	client, _ := upload(t, one, "alice", key, bucket, "some/prefix/half")
	if out, err := two.SFTP("alice", key, "put half\n"); err == nil {
		t.Errorf("two nodes write one file:\n%s", out)
	}
	one.Cmd.Process.Kill()
	<-one.Ended
	if err := client.Wait(); err == nil {
		t.Error("the client was done before its server was killed")
	}
	testenv.Until(t, "the other node goes on", func() bool {
		_, err := two.SFTP("alice", key, "reput half\n")
		return err == nil
	})
	two.Wait("file closed", func(f map[string]any) bool {
		return f["path"] == "/half" && f["error"] == nil && f["written"].(float64) < 33_000_000
	})
	if out, err := two.SFTP("bob", key, "get half half.back\n"); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	servetest.Same(t, data, filepath.Join(home, "half.back"))
}

// TestUploadsOnTwoNodes: our client sends a new file under its own name. Nobody sees it when its
// node is killed, and what the storage has of it is gone on with through another node. A file that
// is there stays whole when the node of a client is killed that replaces it.
func TestUploadsOnTwoNodes(t *testing.T) {
	t.Parallel()
	home, key, file, bucket := withObjects(t)
	writeFile(t, file, []byte(strings.Replace(string(readFile(t, file)), "[storage]",
		"[store]\nurl = \""+storetest.Postgres(t)+"\"\n[storage]", 1)))
	signer, err := ssh.ParsePrivateKey(readFile(t, key))
	if err != nil {
		t.Fatal(err)
	}
	data := randomData(40_000_000)
	local := filepath.Join(home, "local")
	writeFile(t, local, data)
	connect := func(s *servetest.Server) (*usftp.Client, error) {
		conn, err := ssh.Dial("tcp", "127.0.0.1:"+s.Port, &ssh.ClientConfig{User: "alice",
			Auth:            []ssh.AuthMethod{ssh.PublicKeys(signer)},
			HostKeyCallback: ssh.InsecureIgnoreHostKey()})
		if err != nil {
			return nil, err
		}
		t.Cleanup(func() { conn.Close() })
		return usftp.NewClient(conn)
	}
	send := func(s *servetest.Server) (transfer.Result, error) {
		client, err := connect(s)
		if err != nil {
			return transfer.Result{}, err
		}
		return transfer.Copy(t.Context(),
			transfer.Remote(pool.Host{Client: client, Name: "service"}, "/file"),
			transfer.Local(local),
			transfer.Options{Resume: true, Journal: filepath.Join(home, "journal")})
	}
	whole := func(s *servetest.Server, want []byte) {
		t.Helper()
		client, err := connect(s)
		if err != nil {
			t.Fatal(err)
		}
		list, err := client.ReadDir("/")
		if err != nil || len(list) != min(len(want), 1) {
			t.Errorf("others see %v, %v", list, err)
		}
		if got, err := client.ReadFile("/file"); want != nil &&
			(err != nil || !bytes.Equal(got, want)) {
			t.Errorf("others see %d bytes, %v", len(got), err)
		} else if want == nil && err == nil {
			t.Errorf("others can read %d bytes", len(got))
		}
	}
	other, buried := servetest.Start(t, home, "usftpd", "--config", file), 0
	for _, old := range [][]byte{nil, data[:1000]} {
		if old != nil {
			client, err := connect(other)
			if err == nil {
				err = client.WriteFile("/file", old, 0o644)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		one := servetest.Start(t, home, "usftpd", "--config", file)
		ended, left := make(chan error, 1), transfer.Result{}
		way, _ := heldUp(t, one)
		go func() {
			var err error
			left, err = send(way)
			ended <- err
		}()
		untilStored(t, bucket, "some/prefix/")
		one.Cmd.Process.Kill()
		<-one.Ended
		if err := <-ended; err == nil {
			t.Fatal("the client was done before its node was killed")
		}
		whole(other, old)
		if temporary := strings.Contains(left.LeftBehind, ".usftp-"); temporary != (old != nil) {
			t.Errorf("a temporary name: %t, %+v", temporary, left)
		}
		buried++
		// and so is the right to write
		other.WaitFor("a node is dead; its sessions are free", buried)
		if r, err := send(other); err != nil || r.Resumed < 10<<20 {
			t.Errorf("%d bytes were gone on from, %v", r.Resumed, err)
		}
		whole(other, data)
	}
}

// TestKeysForAPrefix: a root that the keys are not for keeps nobody from another one in the same
// bucket.
func TestKeysForAPrefix(t *testing.T) {
	t.Parallel()
	proxy := s3test.Proxy(t, s3test.Storage(t, "bucket"))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.Contains(r.URL.String(), "refused") {
			w.WriteHeader(http.StatusForbidden)
			io.WriteString(w, "<Error><Code>AccessDenied</Code></Error>")
			return
		}
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	o := newObjects(storage{Config: s3bucket.Config{Endpoint: server.URL, Region: "us-east-1",
		PathStyle: true, AccessKey: s3test.AccessKey, SecretKey: s3test.SecretKey}}, nil,
		&sweeper{log: slog.New(slog.DiscardHandler)})
	for _, root := range []string{"s3://bucket/refused", "s3://bucket/ours"} {
		if _, err := o.open(t.Context(), root); (err == nil) != (root == "s3://bucket/ours") {
			t.Errorf("%s: %v", root, err)
		}
	}
}
