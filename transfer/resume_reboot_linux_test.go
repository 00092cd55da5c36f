package transfer_test

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/usftp/usftp/sftptest"
	"github.com/usftp/usftp/transfer"
)

// TestResumeAfterACrash: after a restart of the machine, what a download left is not continued
// unless it was synced: parts of it may be lost, and not only its end.
func TestResumeAfterACrash(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		boot   string
		synced bool
		lost   bool   // the disk was pulled out before its end was written
		why    string // it starts again, or "" if it goes on
	}{
		"same boot":              {boot: "same"},
		"same boot, lost end":    {boot: "same", lost: true, why: "differ"},
		"another boot":           {boot: "another", why: "restarted"},
		"another boot, synced":   {boot: "another", synced: true},
		"an older usftp's mark":  {boot: "", why: "restarted"},
		"an older one's, synced": {boot: "", synced: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				link := sftptest.LinkConfig{RateBytesPerSec: 8 << 20}
				b := newBench(t, sftptest.Script{}, link)
				data := random(40 << 20)
				b.server.Files.WriteFile("/source", data)
				target := filepath.Join(b.dir, "target")
				journal := func(j *copyJob) {
					j.Options.Journal,
						j.Options.Resume = filepath.Join(b.dir, "journal"), true
				}
				// A killed run leaves what was recorded on the way.
				var noted []byte
				ctx, cancel := context.WithTimeout(t.Context(), 4*time.Second)
				defer cancel()
				_, err := b.jobContext(ctx, download, "/source", target, journal,
					func(j *copyJob) {
						j.Options.Events = func(e transfer.Event) {
							if marks, _ := filepath.Glob(filepath.Join(b.dir, "journal",
								"*")); len(marks) == 1 && e.Kind == transfer.Progress {
								noted, _ = os.ReadFile(marks[0])
							}
						}
					})
				marks, _ := filepath.Glob(filepath.Join(b.dir, "journal", "*"))
				if err == nil || len(marks) != 1 || len(noted) == 0 {
					t.Fatalf("%v, %d marks, noted %q", err, len(marks), noted)
				}
				var mark map[string]any
				if err := json.NewDecoder(bytes.NewReader(noted)).Decode(&mark); err != nil {
					t.Fatal(err)
				}
				if test.boot != "same" {
					mark["boot"] = test.boot
				}
				mark["synced"] = test.synced
				text, _ := json.Marshal(mark)
				os.WriteFile(marks[0], text, 0o600)
				if test.lost {
					end := int64(mark["bytes"].(float64))
					f, err := os.OpenFile(mark["temporary"].(string), os.O_WRONLY, 0)
					if err != nil {
						t.Fatal(err)
					}
					f.WriteAt(make([]byte, 100), end-100)
					f.Close()
				}
				b.reconnect(link)
				result, err := b.job(download, "/source", target, journal)
				if err != nil || !bytes.Equal(b.arrived(download), data) {
					t.Fatalf("%+v, %v", result, err)
				}
				if goesOn := result.Resumed > 0; goesOn != (test.why == "") ||
					!strings.Contains(strings.Join(b.notes(), ""), test.why) {
					t.Errorf("it went on from %d; %q", result.Resumed, b.notes())
				}
			})
		})
	}
}
