package transfer_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/usftp/usftp/sftptest"
	"github.com/usftp/usftp/wire"
)

// A host that can have few files open, and does not say how many, shows it by what it refuses: all
// files arrive. What it refuses for another reason fails as ever, and leaves the others their
// handles.
func TestFewHandlesThatNobodyAnnounced(t *testing.T) {
	const files = 200
	limits := sftptest.OpenSSHLimits()
	limits.MaxOpenHandles = 20
	for _, direction := range []way{upload, download} {
		for _, bad := range []bool{false, true} {
			for name, open := range map[string]func(*testing.T, sftptest.Script,
				sftptest.LinkConfig) *bench{"in order": newTreeBench, "step by step": newBench} {
				t.Run(fmt.Sprint(direction, " ", name, ", one is bad: ", bad), func(t *testing.T) {
					script := sftptest.Script{Limits: &limits, Extensions: []wire.ExtensionPair{
						{Name: wire.ExtPosixRename, Data: "1"}}}
					if bad {
						script.Intercept = func(r sftptest.Request) []sftptest.Action {
							name := strings.TrimPrefix(filepath.Base(r.Path), ".")
							if r.Type == wire.TypeOpen && (name == "f7" || strings.HasPrefix(name, "f7.")) {
								return []sftptest.Action{sftptest.Refuse(wire.Failure, "")}
							}
							return nil
						}
					}
					b := open(t, script, sftptest.LinkConfig{})
					source, target := filepath.Join(b.dir, "source"), "/copy"
					names := numbered("f", files)
					if direction == upload {
						fill(t, source, names...)
					} else {
						for _, name := range names {
							b.server.Files.WriteFile("/source/"+name, []byte(name))
						}
						source, target = "/source", filepath.Join(b.dir, "copy")
					}
					s, err := b.tree(direction, source, target)
					want := int64(files)
					if bad {
						want--
					}
					if s.Files != want || s.Failed != files-want || (err != nil) != bad {
						t.Errorf("%+v, %v", s.Totals, err)
					}
				})
			}
		}
	}
}
