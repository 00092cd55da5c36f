//go:build unix

package cli

import (
	"fmt"
	"io"
	"net"
	"path/filepath"
	"regexp"
	"testing"
)

// TestTwoLogins: a copy between two hosts logs in to both at the same time, and each asks all of
// its questions before the other one asks any.
func TestTwoLogins(t *testing.T) {
	t.Parallel()
	fromDir, fromPort := passwordServer(t)
	toDir, toPort := passwordServer(t)
	writeFile(t, filepath.Join(fromDir, "file"), []byte("the file"))
	// Neither gets an answer before the other has been connected to.
	begun := map[string]chan struct{}{"from": make(chan struct{}), "to": make(chan struct{})}
	gate := func(own, other, port string) string {
		return listen(t, func(client net.Conn) {
			defer client.Close()
			close(begun[own])
			select {
			case <-begun[other]:
			case <-t.Context().Done():
				return
			}
			server, err := net.Dial("tcp", "127.0.0.1:"+port)
			if err != nil {
				t.Error(err)
				return
			}
			defer server.Close()
			go func() {
				io.Copy(client, server)
				client.Close()
			}()
			io.Copy(server, client)
		})
	}
	fromPort, toPort = gate("from", "to", fromPort), gate("to", "from", toPort)
	s := onScreen(t, 100, command(t, t.TempDir(), "cp", "-F", "none", "-o",
		"UserKnownHostsFile=none", "-o", "StrictHostKeyChecking=no",
		fmt.Sprintf("sftp://from@127.0.0.1:%s/file",
			fromPort), fmt.Sprintf("sftp://to@127.0.0.1:%s/copy", toPort)))
	s.await(`(from|to)@127\.0\.0\.1.*(?i:password): $`)
	first := regexp.MustCompile(`(from|to)@127\.0\.0\.1.*(?i:password): $`).FindStringSubmatch(
		s.shown.String())[1]
	second := map[string]string{"from": "to", "to": "from"}[first]
	s.typed("wrong\n")
	s.await(`Permission denied[^:]*` + first + `@127\.0\.0\.1.*(?i:password): $`)
	s.typed(secret + "\n")
	s.await(`[^m]` + second + `@127\.0\.0\.1.*(?i:password): $`)
	s.typed(secret + "\n")
	if code := s.End(); code != 0 {
		t.Errorf("exit code %d: %q", code, &s.shown)
	}
	if got := string(readFile(t, filepath.Join(toDir, "copy"))); got != "the file" {
		t.Errorf("the copy is %q", got)
	}
}
