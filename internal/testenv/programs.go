package testenv

import (
	"cmp"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// Python returns an interpreter that has a module: the one that USFTP_PYTHON names, or Debian's.
// Without it the test cannot run: see [Unavailable].
func Python(tb testing.TB, module string) string {
	tb.Helper()
	program := cmp.Or(os.Getenv("USFTP_PYTHON"), "/usr/bin/python3")
	if exec.Command(program, "-c", "import "+module).Run() != nil {
		Unavailable(tb, program+" has no module "+module)
	}
	return program
}

// NodeSSH2 returns node, which finds npm's ssh2: NODE_PATH names its directory.
func NodeSSH2(tb testing.TB) string {
	tb.Helper()
	program := Program(tb, "node")
	if exec.Command(program, "-e", "require('ssh2')").Run() != nil {
		Unavailable(tb, "npm's ssh2 ($NODE_PATH)")
	}
	return program
}

// OpenSSH10 returns a function that makes a script in dir which runs a program of OpenSSH 10, such
// as "/usr/sbin/sshd". USFTP_OPENSSH10 names the directory where .ci/openssh10 has unpacked it,
// with the libraries that it needs.
func OpenSSH10(tb testing.TB, dir string) (script func(program string) string) {
	tb.Helper()
	root := os.Getenv("USFTP_OPENSSH10")
	if root == "" {
		Unavailable(tb, "OpenSSH 10 ($USFTP_OPENSSH10)")
	}
	return func(program string) string {
		file := filepath.Join(dir, filepath.Base(program))
		text := fmt.Sprintf("#!/bin/sh\nexec %[1]s/usr/lib64/ld-linux-x86-64.so.2 "+
			"--library-path %[1]s/usr/lib/x86_64-linux-gnu --argv0 %[2]s %[1]s/%[2]s \"$@\"\n",
			root, program)
		if err := os.WriteFile(file, []byte(text), 0o755); err != nil {
			tb.Fatal(err)
		}
		return file
	}
}

// Accounts returns an environment in which the C library knows this process's user by a name, with
// the home directory dir, and sshd's own user. It takes Debian's libnss-wrapper. hash is of the
// user's password, "" for none.
func Accounts(tb testing.TB, dir, user, hash string) (env []string) {
	tb.Helper()
	found, _ := filepath.Glob("/usr/lib/*/libnss_wrapper.so")
	if len(found) == 0 {
		Unavailable(tb, "libnss-wrapper")
	}
	env = []string{"LD_PRELOAD=" + found[0]}
	add := func(name, variable, text string) {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			tb.Fatal(err)
		}
		env = append(env, variable+"="+file)
	}
	add("passwd", "NSS_WRAPPER_PASSWD", fmt.Sprintf("%s:x:%d:%d::%s:/bin/sh\n"+
		"sshd:x:65533:65534::/run/sshd:/usr/sbin/nologin\n", user, os.Getuid(), os.Getgid(), dir))
	add("group", "NSS_WRAPPER_GROUP", fmt.Sprintf("%s:x:%d:\n", user, os.Getgid()))
	if hash != "" {
		add("shadow", "NSS_WRAPPER_SHADOW", user+":"+hash+":19000:0:99999:7:::\n")
	}
	return env
}

// Daemon runs a server on a port of 127.0.0.1 as [Serve] does, with additions to the environment,
// and returns its address.
func Daemon(tb testing.TB, port int, env []string, argv ...string) string {
	tb.Helper()
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Env = append(os.Environ(), env...)
	addr := fmt.Sprintf("127.0.0.1:%d", port)
	Serve(tb, cmd, "tcp", addr)
	return addr
}
