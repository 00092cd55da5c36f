package clients_test

import (
	"context"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/usftp/usftp/server/internal/membucket"
	"github.com/usftp/usftp/server/objectfs"
)

// usftp returns a function that runs our own command, which must succeed.
func (s *site) usftp() func(args ...string) string {
	s.t.Helper()
	command := s.usftpCommand()
	return func(args ...string) string {
		s.t.Helper()
		words := command(args...).Args
		return s.run(words[0], words[1:]...)
	}
}

// usftpCommand returns a function that returns our own command, which has not been started.
func (s *site) usftpCommand() func(args ...string) *exec.Cmd {
	s.t.Helper()
	program, err := build()
	if err != nil {
		s.t.Fatal(err)
	}
	return func(args ...string) *exec.Cmd {
		flags := []string{args[0], "--config", "none", "--identity", s.key, "--port", s.port,
			"--option", "StrictHostKeyChecking=no", "--option",
			"UserKnownHostsFile=/dev/null"}
		return s.command(program, append(flags, args[1:]...)...)
	}
}

// TestUsftpOfObjects: our own command's temporary names are completed by their renames, and its
// other verbs work, too.
func TestUsftpOfObjects(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	usftp := s.usftp()
	const host = "u@127.0.0.1:"
	for _, size := range []int{100, longFile, 2 * longFile} {
		data := s.random(s.path("file"), size)
		s.bucket.Calls()
		usftp("cp", "file", host+"/file")
		s.holds("file", data)
		if calls := s.bucket.Calls(); size >= longFile && calls["Copy"]+calls["CopyPart"] > 0 {
			t.Errorf("%d bytes were copied in the storage: %v", size, calls)
		}
		usftp("cp", host+"/file", "back")
		s.expect(s.path("back"), data)
	}
	tree := map[string][]byte{"long": s.random(s.path("tree/long"), longFile)}
	for _, name := range []string{"a", "b c", "sub/deep/e", "naïve \\ name"} {
		tree[name] = s.random(s.path("tree/"+name), 1000)
	}
	usftp("sync", "tree", host+"/tree")
	for name, data := range tree {
		s.holds("tree/"+name, data)
	}
	s.bucket.Calls()
	if usftp("sync", "tree", host+"/tree"); s.bucket.Calls()["UploadPart"] > 0 {
		t.Error("what had not changed was sent again")
	}
	os.Remove(s.path("tree/a"))
	usftp("sync", "--delete", "tree", host+"/tree")
	if _, ok := s.bucket.Objects()["tree/a"]; ok {
		t.Error("sync --delete has not deleted a file")
	}
	usftp("cp", "-r", host+"/tree", "tree back")
	delete(tree, "a")
	s.expectTree(s.path("tree back"), tree)
	usftp("mv", host+"/tree", host+"/moved")
	if out := usftp("ls", "-R", host+"/moved"); !strings.Contains(out, "b c") {
		t.Errorf("listed: %s", out)
	}
	usftp("rm", "-r", host+"/moved")
	for key := range s.bucket.Objects() {
		if strings.HasPrefix(key, "tree/") || strings.HasPrefix(key, "moved") {
			t.Errorf("%s is left", key)
		}
	}
	if n := s.bucket.Uploads(); n != 0 {
		t.Errorf("%d uploads are left", n)
	}
}

// watched is a bucket that tells of each part, and stores no more than are let in.
type watched struct {
	*membucket.Bucket
	let, parts chan struct{}
}

// newWatched returns a watched bucket, and its files, which hold far less in memory than the tests
// send: a client whose parts are not let in does not get to the end of its file.
func newWatched(bucket *membucket.Bucket, state objectfs.State) (*watched, *objectfs.FS) {
	b := &watched{bucket, make(chan struct{}, manyParts), make(chan struct{}, manyParts)}
	return b, objectfs.New(b, &objectfs.Options{State: state, Memory: objectfs.NewMemory(32 << 20)})
}

const manyParts = 100 // more than all files have

func (b *watched) UploadPart(ctx context.Context, key, id string, number int,
	body *io.SectionReader) (objectfs.Part, error) {
	<-b.let
	part, err := b.Bucket.UploadPart(ctx, key, id, number, body)
	b.parts <- struct{}{}
	return part, err
}

// stores lets only so many parts in, and waits for them.
func (b *watched) stores(parts int) {
	for len(b.let) > 0 {
		<-b.let
	}
	for len(b.parts) > 0 {
		<-b.parts
	}
	for range parts {
		b.let <- struct{}{}
	}
	for range parts {
		<-b.parts
	}
}

// goesOn lets all parts in.
func (b *watched) goesOn() {
	for len(b.let) < cap(b.let) {
		b.let <- struct{}{}
	}
}

// unlocking is a state that tells when a session is done with a file.
type unlocking struct {
	objectfs.MemoryState
	done chan struct{}
}

func (u *unlocking) Unlock(ctx context.Context, upload objectfs.Upload, keep bool) error {
	err := u.MemoryState.Unlock(ctx, upload, keep)
	u.done <- struct{}{}
	return err
}

func (u *unlocking) Settle(ctx context.Context, upload objectfs.Upload, key string,
	made objectfs.Stamp) error {
	err := u.MemoryState.Settle(ctx, upload, key, made)
	u.done <- struct{}{}
	return err
}

// TestKilledClientOfObjects: a client is killed half way. Nothing of its file is visible, the file
// that it was to replace is whole, and the next one goes on.
func TestKilledClientOfObjects(t *testing.T) {
	t.Parallel()
	require(t, "sftp")
	s := &store{}
	state := &unlocking{done: make(chan struct{}, 100)}
	var bucket *watched
	bucket, s.fs = newWatched(&s.bucket, state)
	s.site = newSiteOf(t, s.fs)
	const size = 60 << 20
	data := s.random(s.path("file"), size)
	old := s.random(s.path("old"), 1000)
	openSSHSFTP.put(s.site, s.path("old"), "old")
	<-state.done
	for _, name := range []string{"new", "old"} {
		cmd := exec.Command("sftp", append(s.sshOptions(), "-P", s.port, "-b", "-",
			"u@127.0.0.1")...)
		cmd.Dir = s.local
		cmd.Stdin = strings.NewReader("put file " + name + "\n")
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		bucket.stores(3)
		cmd.Process.Kill()
		cmd.Wait()
		bucket.goesOn()
		<-state.done // the server may still have been sending parts
		if _, ok := s.bucket.Objects()["new"]; ok {
			t.Error("a file that was never completed is visible")
		}
		s.holds("old", old)
	}
	s.bucket.Calls()
	openSSHSFTP.resumePut(s.site, s.path("file"), "new")
	s.holds("new", data)
	if n := s.bucket.Calls()["UploadPart"]; n > 10 {
		t.Errorf("%d of 12 parts were sent again", n)
	}
}

// TestKilledUsftpOfObjects: what the storage has kept of an upload of our own command, which was
// killed or interrupted half way, is proved by its parts, and not sent again.
func TestKilledUsftpOfObjects(t *testing.T) {
	t.Parallel()
	for _, signal := range []os.Signal{os.Kill, os.Interrupt} {
		t.Run(signal.String(), func(t *testing.T) {
			t.Parallel()
			s := &store{}
			state := &unlocking{done: make(chan struct{}, 100)}
			var bucket *watched
			bucket, s.fs = newWatched(&s.bucket, state)
			s.site = newSiteOf(t, s.fs)
			usftp := s.usftpCommand()
			const host, parts = "u@127.0.0.1:", 12
			data := s.random(s.path("file"), parts*5<<20-1)
			cmd := usftp("cp", "--limit", "10MB", "file", host+"/file")
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			bucket.stores(4)
			cmd.Process.Signal(signal)
			bucket.goesOn()
			cmd.Wait()
			<-state.done // the server may still have been sending parts
			if _, ok := s.bucket.Objects()["file"]; ok {
				t.Error("a file that was never completed is visible")
			}
			s.bucket.Calls()
			out, err := usftp("cp", "--resume", "file", host+"/file").CombinedOutput()
			if err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			s.holds("file", data)
			if n := s.bucket.Calls()["UploadPart"]; n > parts-3 {
				t.Errorf("%d of %d parts were sent again: %s", n, parts, out)
			}
			if n := s.bucket.Uploads(); n != 0 {
				t.Errorf("%d uploads are left", n)
			}
		})
	}
}
