package transfer_test

import (
	"errors"
	"os"
	"testing"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/sftptest"
	"github.com/usftp/usftp/transfer"
	"github.com/usftp/usftp/wire"
)

// Differences are detected before the copy takes the target's place, by hash and by reading, for
// single files and small ones of a tree.
func TestVerify(t *testing.T) {
	verify := func(j *copyJob) { j.Options.Verify = true }
	verifyTree := func(tree *treeJob) { tree.Options.Verify = true }
	hashes := append(sftptest.OpenSSHExtensions(),
		wire.ExtensionPair{Name: wire.ExtCheckFileHandle, Data: "1"})
	for name, test := range map[string]struct {
		script sftptest.Script
		how    transfer.Verification
	}{
		"reading": {how: transfer.VerifiedByReading},
		"hash":    {how: transfer.VerifiedByHash, script: sftptest.Script{Extensions: hashes}},
	} {
		for _, size := range []int{0, 1000, 700_000} {
			b := newTreeBench(t, test.script, sftptest.LinkConfig{})
			local := b.local("source", random(size))
			want := test.how
			up, err := b.job(upload, local, "/target", verify)
			if err != nil || up.Verified != want {
				t.Errorf("%s, %d bytes up: %+v, %v", name, size, up, err)
			}
			down, err := b.job(download, "/target", b.dir+"/back", verify)
			if err != nil || down.Verified != want {
				t.Errorf("%s, %d bytes down: %+v, %v", name, size, down, err)
			}
			if size == 0 {
				continue
			}
			os.Mkdir(b.dir+"/tree", 0o755)
			b.local("tree/file", random(size))
			if _, err := b.tree(upload, b.dir+"/tree", "/tree", verifyTree); err != nil {
				t.Errorf("%s, a tree of %d bytes up: %v", name, size, err)
			}
			if _, err := b.tree(download, "/tree", b.dir+"/tree2",
				verifyTree); err != nil {
				t.Errorf("%s, a tree of %d bytes down: %v", name, size, err)
			}
			// The server stores something other than it was given.
			spoil := sftptest.Fault{On: wire.TypeClose,
				Do: sftptest.Call("spoil", func(r sftptest.Request) {
					b.spoil(r.Path)
				})}
			b.server.AddFaults(spoil)
			if _, err := b.job(upload, local, "/target", verify); !errors.Is(err,
				transfer.ErrVerify) {
				t.Errorf("%s, %d bytes: spoilt on the host: %v", name, size, err)
			}
			b.server.AddFaults(spoil)
			if _, err := b.tree(upload, b.dir+"/tree", "/tree",
				verifyTree); !errors.Is(err, transfer.ErrVerify) {
				t.Errorf("%s, a tree of %d bytes: spoilt on the host: %v", name, size, err)
			}
			if got := b.remote("/target"); len(got) != size {
				t.Errorf("the old target has gone: %d bytes", len(got))
			}
			if left := b.temporaries(); len(left) > 0 {
				t.Errorf("left behind: %q", left)
			}
		}
	}
}

// A host that counts reads is not read again, and nothing is copied that could not be verified.
func TestVerifyReadOnce(t *testing.T) {
	b := newBench(t, sftptest.Script{}, sftptest.LinkConfig{},
		usftp.WithServerVersion("SSH-2.0-Sterling"))
	_, err := b.job(upload, b.local("source", []byte("x")), "/target",
		func(j *copyJob) { j.Options.Verify = true })
	if !errors.Is(err, errors.ErrUnsupported) {
		t.Error(err)
	}
	b.server.Files.WriteFile("/file", []byte("x"))
	if _, err = b.job(download, "/file", b.dir+"/back",
		func(j *copyJob) { j.Options.Verify = true }); !errors.Is(err, errors.ErrUnsupported) {
		t.Error(err)
	}
	if _, err = b.tree(upload, b.sample("tree"), "/tree",
		func(tree *treeJob) { tree.Options.Verify = true }); !errors.Is(err,
		errors.ErrUnsupported) {
		t.Error(err)
	}
	reads, opens := b.server.Requests(wire.TypeRead), b.server.Requests(wire.TypeOpen)
	if len(reads)+len(opens) > 0 {
		t.Errorf("%d reads and %d opens", len(reads), len(opens))
	}
}
