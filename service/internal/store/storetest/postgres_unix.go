//go:build unix

// Package storetest runs a PostgreSQL for tests.
package storetest

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/usftp/usftp/internal/testenv"
)

// Postgres runs a PostgreSQL of the test's own until the test ends, and returns its URL. It listens
// in its directory only. PostgreSQL does not run as root, so root becomes the user postgres.
func Postgres(t *testing.T) (url string) {
	t.Helper()
	initdb, server := program(t, "initdb"), program(t, "postgres")
	dir, err := os.MkdirTemp("", "pg") // short, as the path of a socket must be
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	as := &syscall.SysProcAttr{}
	if os.Getuid() == 0 {
		as.Credential = credential(t, dir)
	}
	data := filepath.Join(dir, "data")
	init := exec.Command(initdb, "-D", data, "-A", "trust", "-U", "usftpd", "--no-sync")
	init.Dir, init.SysProcAttr = dir, as
	if out, err := init.CombinedOutput(); err != nil {
		t.Fatalf("initdb: %v\n%s", err, out)
	}
	cmd := exec.Command(server, "-D", data, "-k", dir, "-c", "listen_addresses=", "-c",
		"fsync=off", "-c", "max_connections=500") // nine for each node of TestFaults
	cmd.Dir, cmd.SysProcAttr = dir, diesWithParent(as)
	said, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	started, ended := make(chan error), make(chan struct{})
	go func() {
		// The system takes the end of this thread for the parent's.
		runtime.LockOSThread()
		defer close(ended)
		err := cmd.Start()
		started <- err
		if err == nil {
			<-started
			cmd.Wait()
		}
	}()
	if err := <-started; err != nil {
		t.Fatal(err)
	}
	var log strings.Builder
	lines := bufio.NewScanner(said)
	ready := false
	for !ready && lines.Scan() {
		fmt.Fprintln(&log, lines.Text())
		ready = strings.Contains(lines.Text(), "ready to accept connections")
	}
	drained := make(chan struct{})
	go func() {
		defer close(drained)
		io.Copy(io.Discard, said)
	}()
	t.Cleanup(func() {
		cmd.Process.Signal(syscall.SIGINT) // disconnects everybody
		<-drained
		started <- nil
		<-ended
	})
	if !ready {
		t.Fatalf("postgres does not start:\n%s", log.String())
	}
	return "postgres://usftpd@/postgres?host=" + dir
}

// Pooler runs a PgBouncer in front of a PostgreSQL of Postgres until the test ends, and returns its
// URL. settings are lines of its section pgbouncer. PgBouncer does not run as root either.
func Pooler(t *testing.T, url, settings string) string {
	t.Helper()
	pgbouncer := testenv.Program(t, "pgbouncer")
	_, host, _ := strings.Cut(url, "host=")
	dir, err := os.MkdirTemp("", "pool")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	cmd := exec.Command(pgbouncer, filepath.Join(dir, "ini"))
	if os.Getuid() == 0 {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: credential(t, dir)}
	}
	ini := "[databases]\npostgres = host=" + host + " user=usftpd\n[pgbouncer]\n" +
		"unix_socket_dir = " + dir + "\nlisten_port = 5432\nauth_type = any\n" + settings +
		"\n"
	if err := os.WriteFile(cmd.Args[1], []byte(ini), 0o644); err != nil {
		t.Fatal(err)
	}
	testenv.Serve(t, cmd, "unix", filepath.Join(dir, ".s.PGSQL.5432"))
	return "postgres://usftpd@/postgres?host=" + dir
}

// program finds a program of the newest PostgreSQL: Debian's are not in PATH.
func program(t *testing.T, name string) string {
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/" + name)
	if len(found) > 0 {
		return slices.Max(found)
	}
	return testenv.Program(t, name)
}

// credential gives the directory to the user postgres.
func credential(t *testing.T, dir string) *syscall.Credential {
	t.Helper()
	account, err := user.Lookup("postgres")
	if err != nil {
		testenv.Unavailable(t, err)
	}
	uid, _ := strconv.Atoi(account.Uid)
	gid, _ := strconv.Atoi(account.Gid)
	if err := os.Chown(dir, uid, gid); err != nil {
		t.Fatal(err)
	}
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
}
