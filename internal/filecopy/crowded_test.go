package filecopy

import (
	"errors"
	"io/fs"
	"net"
	"os"
	"testing"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/server"
	"github.com/usftp/usftp/server/memfs"
)

// TestExistingNameIsNotCrowding: a file that is refused because its name exists, as after an upload
// whose answer was lost, does not wait for others to be closed. Version 3 has no status for it, so
// servers answer FAILURE, as they do if too many files are open.
func TestExistingNameIsNotCrowding(t *testing.T) {
	t.Parallel()
	near, far := net.Pipe()
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(t.Context(), far, memfs.New(0), nil) }()
	client, err := usftp.NewClientPipe(near, near)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { client.Close(); <-ended }()
	if err := client.WriteFile("/there", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	_, err = client.OpenFile("/there", os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if !errors.Is(err, fs.ErrExist) || !errors.Is(err, usftp.ErrSSHFxFailure) {
		t.Fatalf("creating a file that exists: %v", err)
	}
	var s slot
	s.take(NewBudget(10))
	defer s.free()
	if s.crowded(err) {
		t.Errorf("%v: taken for a limit on open files", err)
	}
}
