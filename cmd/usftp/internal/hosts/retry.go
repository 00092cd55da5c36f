package hosts

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/usftp/usftp/cmd/usftp/internal/opt"
	"github.com/usftp/usftp/internal/localfs"
	"github.com/usftp/usftp/internal/ui"
)

// A record is the file that remembers on which hosts the last run of a command failed. It does not
// exist after a run without failures. A command is identified by its verb, operands, list of hosts
// and working directory; other flags may change between runs.
type record struct{ name string }

func newRecord(verb string, f *Flags, operands []string) record {
	dir, _ := os.Getwd()
	text, _ := json.Marshal([]any{verb, dir, f.list, f.file, operands})
	sum := sha256.Sum256(text)
	return record{opt.StatePath("failed-hosts", hex.EncodeToString(sum[:16]))}
}

// failed returns the hosts that failed in the last run.
func (r record) failed(hosts []Host) ([]Host, error) {
	var labels []string
	text, err := os.ReadFile(r.name)
	if errors.Is(err, fs.ErrNotExist) || r.name == "" {
		return nil, errors.New("--retry-failed: no host failed in the last run of this command in this directory")
	}
	if err == nil {
		err = json.Unmarshal(text, &labels)
	}
	if err != nil {
		return nil, fmt.Errorf("--retry-failed: cannot read %s: %s", r.name, ui.ReasonOf(err))
	}
	hosts = slices.DeleteFunc(hosts, func(h Host) bool { return !slices.Contains(labels, h.Label) })
	if len(hosts) == 0 {
		return nil, errors.New("--retry-failed: none of the hosts that failed is still in the list")
	}
	return hosts, nil
}

// write records the hosts that have failed. The old record stays until the new one is complete.
func (r record) write(labels []string) error {
	if r.name == "" {
		return nil
	}
	if len(labels) == 0 {
		err := os.Remove(r.name)
		if errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
		return err
	}
	text, err := json.Marshal(labels)
	if err == nil {
		err = os.MkdirAll(filepath.Dir(r.name), 0o700)
	}
	if err != nil {
		return err
	}
	return localfs.ReplacePrivate(r.name, text)
}
