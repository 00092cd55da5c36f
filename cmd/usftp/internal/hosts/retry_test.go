package hosts

import (
	"os"
	"path/filepath"
	"testing"
)

// TestRecordIsReplaced: a record is not emptied before the next one is written, which a full disk
// or a kill could keep from happening.
func TestRecordIsReplaced(t *testing.T) {
	r := record{filepath.Join(t.TempDir(), "failed-hosts", "record")}
	var files []os.FileInfo
	for _, labels := range [][]string{{"a", "b"}, {"c"}} {
		if err := r.write(labels); err != nil {
			t.Fatal(err)
		}
		f, err := os.Open(r.name)
		if err != nil {
			t.Fatal(err)
		}
		info, err := f.Stat() // with the identity, which Windows' os.Stat looks up only later
		if f.Close(); err != nil {
			t.Fatal(err)
		}
		files = append(files, info)
		got, err := r.failed([]Host{{Label: labels[0]}, {Label: "other"}})
		if err != nil || len(got) != 1 || got[0].Label != labels[0] {
			t.Errorf("%q: %v, %v", labels, got, err)
		}
	}
	if os.SameFile(files[0], files[1]) {
		t.Error("the old record was overwritten")
	}
	if all, err := os.ReadDir(filepath.Dir(r.name)); err != nil || len(all) != 1 {
		t.Errorf("%v, %v", all, err)
	}
}
