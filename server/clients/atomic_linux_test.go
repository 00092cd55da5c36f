package clients_test

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/usftp/usftp/server"
	"github.com/usftp/usftp/server/osfs"
	"github.com/usftp/usftp/wire"
)

// atomicSite is a site whose files appear when they are complete.
type atomicSite struct {
	*site
	fs *osfs.FS
}

func newAtomicSite(t *testing.T) *atomicSite {
	s := &atomicSite{}
	s.site = newSiteAt(t, func(dir string) (files *osfs.FS, err error) {
		s.fs, err = osfs.NewAtomic(dir)
		return s.fs, err
	})
	return s
}

// hidden counts the unfinished uploads.
func (s *atomicSite) hidden() (n int) {
	s.t.Helper()
	err := filepath.WalkDir(s.served, func(name string, _ os.DirEntry, err error) error {
		if strings.HasPrefix(filepath.Base(name), ".upload-") {
			n++
		}
		return err
	})
	if err != nil {
		s.t.Fatal(err)
	}
	return n
}

// cut leaves the beginning of an upload.
func (s *atomicSite) cut(name string, data []byte) {
	s.t.Helper()
	file, err := s.fs.Open(context.Background(), "/"+name, wire.OpenWrite|wire.OpenCreate,
		wire.Attrs{Permissions: 0o644})
	if err == nil {
		_, err = file.(io.WriterAt).WriteAt(data, 0)
	}
	if err == nil {
		err = file.(server.FileAbandoner).Abandon()
	}
	if err != nil {
		s.t.Fatal(err)
	}
}

// TestClientsOfAtomicUploads: the same programs do the same. What they write appears, in place of
// what was there, and uploads that were cut are gone on with, or begun again.
func TestClientsOfAtomicUploads(t *testing.T) {
	withClients(t, clients, newAtomicSite, func(t *testing.T, c *client, s *atomicSite) {
		c.round(s.site)
		for _, size := range []int{2 << 20, 7} {
			data := s.random(s.path("again"), size)
			c.put(s.site, s.path("again"), "again")
			s.expect(filepath.Join(s.served, "again"), data)
		}
		data := s.random(s.path("cut"), 1<<20+7)
		for step, resume := range map[string]func(*site, string, string){"cut": c.resumePut,
			"begun again": c.put} {
			if resume == nil {
				continue // which cannot tells of
			}
			s.cut(step, data[:len(data)/2])
			if _, err := os.Stat(filepath.Join(s.served, step)); err == nil {
				t.Error("half a file is visible")
			}
			resume(s.site, s.path("cut"), step)
			s.expect(filepath.Join(s.served, step), data)
		}
		if n := s.hidden(); n > 0 {
			t.Errorf("%d uploads are left", n)
		}
	}, "sshfs") // which sends CLOSE some time after close(2) has returned
}

// TestKilledClientOfAtomicUploads: a client is killed half way. Nothing of its file is visible, the
// file that it was to replace is whole, and the next one goes on.
func TestKilledClientOfAtomicUploads(t *testing.T) {
	t.Parallel()
	require(t, "sftp")
	s := newAtomicSite(t)
	data, old := s.random(s.path("file"), 60<<20), s.random(filepath.Join(s.served, "old"), 1000)
	for _, name := range []string{"new", "old"} {
		cmd := s.command("sftp", slices.Concat(s.sshOptions(), []string{"-l", "80000", "-P", s.port,
			"-b", "-", "u@127.0.0.1"})...)
		cmd.Stdin = strings.NewReader("put file " + name + "\n")
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		s.await(server.FileOpened, "/"+name)
		cmd.Process.Kill()
		cmd.Wait()
		s.await(server.FileAbandoned, "/"+name)
		if _, err := os.Stat(filepath.Join(s.served, "new")); err == nil {
			t.Error("a file that was never completed is visible")
		}
		s.expect(filepath.Join(s.served, "old"), old)
	}
	openSSHSFTP.resumePut(s.site, s.path("file"), "new")
	s.expect(filepath.Join(s.served, "new"), data)
	if n := s.hidden(); n > 0 {
		t.Errorf("%d uploads are left", n)
	}
}

// TestMountOfAtomicUploads: who has closed a file on a mount can read it there, at once.
func TestMountOfAtomicUploads(t *testing.T) {
	require(t, sshfs.programs...)
	s := newAtomicSite(t)
	sshfs.prepare(s.site)
	for i := range 100 {
		name := filepath.Join(s.local, "mnt", fmt.Sprint("f", i))
		var err error
		withoutForks(func() { err = os.WriteFile(name, []byte("text"), 0o644) })
		if err != nil {
			t.Fatal(err)
		}
		s.expect(name, []byte("text"))
	}
}

// TestUsftpOfAtomicUploads: our own command, over one connection and several, and with copies that
// were interrupted.
func TestUsftpOfAtomicUploads(t *testing.T) {
	t.Parallel()
	s := newAtomicSite(t)
	usftp, command := s.usftp(), s.usftpCommand()
	const host, size = "u@127.0.0.1:", 40 << 20
	for i, flags := range [][]string{{"--connections", "1", "--streams", "1"},
		{"--connections", "4", "--streams", "1"}, {"--connections", "1", "--streams", "4"},
		{"--inplace", "--connections", "4"}, {"--inplace", "--connections", "4"}} {
		data := s.random(s.path("file"), size+i)
		usftp(slices.Concat([]string{"cp"}, flags, []string{"file", host + "/file"})...)
		s.expect(filepath.Join(s.served, "file"), data)
	}
	data := s.random(s.path("file"), size)
	for _, name := range []string{"new", "file"} {
		interrupted := command("cp", "--resume", "--limit", "65536", "file", host+"/"+name)
		if err := interrupted.Start(); err != nil {
			t.Fatal(err)
		}
		for e := s.opened(); !strings.Contains(e.Path, name); e = s.opened() {
		}
		interrupted.Process.Kill()
		interrupted.Wait()
		usftp("cp", "--resume", "file", host+"/"+name)
		s.expect(filepath.Join(s.served, name), data)
	}
	tree := map[string][]byte{}
	for i := range 200 {
		name := fmt.Sprintf("sub-%d/%d", i%7, i)
		tree[name] = s.random(s.path("tree/"+name), 100*i)
	}
	usftp("sync", "tree", host+"/tree")
	s.expectTree(filepath.Join(s.served, "tree"), tree)
	usftp("rm", "-r", host+"/tree")
	if n := s.hidden(); n > 0 {
		t.Errorf("%d uploads are left", n)
	}
}

// opened waits for a file to be opened for writing.
func (s *site) opened() server.Event {
	for e := range s.events {
		if e.Kind == server.FileOpened && e.Upload {
			return e
		}
	}
	panic("the events are never closed")
}
