package clients_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"

	"github.com/usftp/usftp/internal/testenv"
)

// A process that is forked has the open files of this one, and closes them when it starts a
// program. If sshfs is asked to flush a file twice at once, it answers one of the two before its
// writes have ended, so nothing is forked while a file on the mount is written.
func withoutForks(write func()) {
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	write()
}

// sshfs mounts the server, so its operations are system calls.
var sshfs = func() *client {
	mounted := func(s *site, name string) string { return filepath.Join(s.local, "mnt", name) }
	copyFile := func(s *site, from, to string) {
		s.t.Helper()
		data, err := os.ReadFile(from)
		if err == nil {
			err = os.WriteFile(to, data, 0o644)
		}
		if err != nil {
			s.t.Error(err)
		}
	}
	carryOn := func(s *site, from, to string) {
		s.t.Helper()
		data, err := os.ReadFile(from)
		if err != nil {
			s.t.Fatal(err)
		}
		file, err := os.OpenFile(to, os.O_WRONLY|os.O_APPEND, 0)
		if err != nil {
			s.t.Fatal(err)
		}
		info, err := file.Stat()
		if err == nil {
			_, err = file.Write(data[info.Size():])
		}
		if err := errors.Join(err, file.Close()); err != nil {
			s.t.Error(err)
		}
	}
	check := func(s *site, err error) {
		s.t.Helper()
		if err != nil {
			s.t.Error(err)
		}
	}
	return &client{
		programs: []string{"sshfs", "fusermount3"},
		prepare: func(s *site) {
			mnt := mounted(s, "")
			if err := os.MkdirAll(mnt, 0o755); err != nil {
				s.t.Fatal(err)
			}
			// it supports neither -F none nor -i
			args := append(s.sshOptions()[2:], "-p", s.port, "u@127.0.0.1:/", mnt)
			args = append([]string{"-o", "IdentityFile=" + s.key}, args[2:]...)
			if out, err := exec.Command("sshfs", args...).CombinedOutput(); err != nil {
				testenv.Unavailable(s.t, fmt.Sprintf("nothing can be mounted: %v: %s", err, out))
			}
			s.t.Cleanup(func() { exec.Command("fusermount3", "-u", mnt).Run() })
		},
		put: func(s *site, from, to string) {
			withoutForks(func() { copyFile(s, from, mounted(s, to)) })
		},
		get: func(s *site, from, to string) { copyFile(s, mounted(s, from), to) },
		resumePut: func(s *site, from, to string) {
			withoutForks(func() { carryOn(s, from, mounted(s, to)) })
		},
		resumeGet: func(s *site, from, to string) { carryOn(s, mounted(s, from), to) },
		putTree:   func(s *site, from, to string) { s.run("cp", "-r", from, mounted(s, to)) },
		getTree:   func(s *site, from, to string) { s.run("cp", "-r", mounted(s, from), to) },
		list:      func(s *site, dir string) string { return s.run("ls", mounted(s, dir)) },
		rename:    func(s *site, a, b string) { check(s, os.Rename(mounted(s, a), mounted(s, b))) },
		symlink:   func(s *site, a, b string) { check(s, os.Symlink(a, mounted(s, b))) },
		link:      func(s *site, a, b string) { check(s, os.Link(mounted(s, a), mounted(s, b))) },
		cannot:    map[string]string{"copy": "sshfs does not know copy-data"},
		chmod:     func(s *site, mode, name string) { s.run("chmod", mode, mounted(s, name)) },
	}
}()
