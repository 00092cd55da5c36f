// Package s3test runs a storage that speaks S3 for tests.
package s3test

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/usftp/usftp/internal/testenv"
)

// The keys of the storage.
const (
	AccessKey = "key"
	SecretKey = "secret"
)

// Storage runs a storage in one region, us-east-1, with these buckets, until the test ends, and
// returns its URL.
func Storage(t *testing.T, buckets ...string) (endpoint string) {
	t.Helper()
	program, dir := testenv.Program(t, "versitygw"), t.TempDir()
	for _, name := range buckets { // a directory is a bucket
		if err := os.Mkdir(filepath.Join(dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	address := fmt.Sprintf("127.0.0.1:%d", testenv.FreePort(t))
	cmd := exec.Command(program, "--quiet", "--access", AccessKey, "--secret", SecretKey, "--port",
		address, "posix", dir)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	deadline, look := time.After(time.Minute), time.NewTicker(20*time.Millisecond)
	defer look.Stop()
	for {
		conn, err := net.Dial("tcp", address)
		if err == nil {
			conn.Close()
			return "http://" + address
		}
		select {
		case <-look.C:
		case <-deadline:
			t.Fatalf("the storage has not started: %v", err)
		}
	}
}
