package usftp_test

import (
	"bytes"
	"crypto/sha256"
	"io"
	"math/rand"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/usftp/usftp"
)

const sftpServer = "/usr/lib/openssh/sftp-server"

// startServer runs OpenSSH's sftp-server on pipes.
func startServer(t testing.TB, opts ...usftp.ClientOption) *usftp.Client {
	t.Helper()
	if _, err := os.Stat(sftpServer); err != nil {
		if os.Getenv("USFTP_REQUIRE") != "" {
			t.Fatalf("OpenSSH's sftp-server is needed: %v", err)
		}
		t.Skip("OpenSSH's sftp-server is not installed")
	}
	cmd := exec.Command(sftpServer, "-e")
	w, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	r, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	client, err := usftp.NewClientPipe(r, w, opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		client.Close()
		cmd.Wait()
	})
	return client
}

func randomFile(t testing.TB, dir string, size int) (name string, data []byte) {
	t.Helper()
	data = make([]byte, size)
	rand.New(rand.NewSource(int64(size))).Read(data)
	name = filepath.Join(dir, "source")
	if err := os.WriteFile(name, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return name, data
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

func BenchmarkWriteTo10MiB(b *testing.B) {
	client := startServer(b)
	name, _ := randomFile(b, "/dev/shm", 10<<20)
	defer os.Remove(name)
	b.SetBytes(10 << 20)
	b.ReportAllocs()
	for b.Loop() {
		f, err := client.Open(name)
		if err != nil {
			b.Fatal(err)
		}
		if n, err := f.WriteTo(io.Discard); n != 10<<20 || err != nil {
			b.Fatal(n, err)
		}
		f.Close()
	}
}

func BenchmarkReadFrom10MiB(b *testing.B) {
	client := startServer(b)
	data := make([]byte, 10<<20)
	defer os.Remove("/dev/shm/target")
	b.SetBytes(10 << 20)
	b.ReportAllocs()
	for b.Loop() {
		f, err := client.Create("/dev/shm/target")
		if err != nil {
			b.Fatal(err)
		}
		if n, err := f.ReadFrom(bytes.NewReader(data)); n != 10<<20 || err != nil {
			b.Fatal(n, err)
		}
		f.Close()
	}
}
