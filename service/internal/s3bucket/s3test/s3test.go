// Package s3test runs S3 storage for tests.
package s3test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

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
		address, "posix", "--versioning-dir", t.TempDir(), dir)
	testenv.Serve(t, cmd, "tcp", address)
	return "http://" + address
}
