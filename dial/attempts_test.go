//go:build unix

package dial

import (
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"sync"
	"testing"

	"golang.org/x/crypto/ssh"

	"github.com/usftp/usftp/internal/testenv"
	"github.com/usftp/usftp/sftptest/opensshd"
)

var (
	sshdBegan  = regexp.MustCompile(`(?m)^Connection from 127\.0\.0\.1 port (\d+) `)
	sshdFailed = regexp.MustCompile(`(?m)^Failed publickey for `)
)

// failuresIn counts the keys that sshd has refused according to its log after offset, once each
// connection is logged in or has ended.
func failuresIn(t *testing.T, srv *opensshd.Server, offset int) int {
	t.Helper()
	var text string
	testenv.Until(t, "sshd ends its connections", func() bool {
		text = srv.Log()[offset:]
		for _, m := range sshdBegan.FindAllStringSubmatch(text, -1) {
			if !regexp.MustCompile(`(?m)^(Accepted|Connection closed|Connection reset|` +
				`Disconnect).* port ` + m[1] + `\b`).MatchString(text) {
				return false
			}
		}
		return text != ""
	})
	return len(sshdFailed.FindAllString(text, -1))
}

// TestAttempts: whatever keys there are, in whatever order, and whichever worked before, usftp logs
// in wherever ssh does. It counts as few failed attempts, but for one if the key that worked before
// does so no more, and one for a file that is named explicitly and not in the agent, which we offer
// before the agent's other keys.
func TestAttempts(t *testing.T) {
	t.Parallel()
	program := opensshd.Find(t, "ssh")
	dir := t.TempDir()
	keys := make(map[string]ssh.PublicKey)
	file := func(name string) string { return filepath.Join(dir, name) }
	for _, name := range []string{"a", "b", "c"} {
		keys[name] = writeKey(t, file(name), "")
		writeFile(t, file(name+".pub"), authorizedLine(keys[name])+"\n")
	}
	both, all := startAgent(t, file("a"), file("b")), startAgent(t, file("a"), file("b"), file("c"))
	named := func(names ...string) (text string) {
		for _, n := range names {
			text += "IdentityFile " + file(n) + "\n"
		}
		return text
	}
	var running sync.WaitGroup
	defer running.Wait()
	for _, c := range []struct {
		name, client string
		names        []string // of the keys that may be good, or remembered
		early        int      // files that ssh offers after the agent's keys
	}{
		{"files", named("a", "b", "c") + "IdentitiesOnly yes\nIdentityAgent none",
			[]string{"a", "b", "c"}, 0},
		{"the agent, a file's key first", named("c") + "IdentityAgent " + all,
			[]string{"a", "b", "c"}, 0},
		{"the agent and a file", named("c") + "IdentityAgent " + both,
			[]string{"a", "b", "c"}, 1},
		{"the agent, IdentitiesOnly", named("c", "b") + "IdentitiesOnly yes\nIdentityAgent " + both,
			[]string{"b", "c"}, 1},
	} {
		for tries := 1; tries <= 3; tries++ {
			srv := opensshd.Start(t, opensshd.Options{Config: []string{
				fmt.Sprint("MaxAuthTries ", tries), "LogLevel VERBOSE"}})
			hostKey, err := readPublic(srv.HostKeys[0] + ".pub")
			if err != nil {
				t.Fatal(err)
			}
			config := writeFile(t, filepath.Join(srv.Dir, "conf"), fmt.Sprintf(
				"HostName %s\nPort %d\nUser %s\nUserKnownHostsFile %s\nBatchMode yes\n%s\n", srv.Host,
				srv.Port, srv.User, srv.KnownHosts, c.client))
			running.Go(func() {
				for _, good := range append(c.names, "") {
					line := ""
					if good != "" {
						line = authorizedLine(keys[good]) + "\n"
					}
					writeFile(t, srv.AuthorizedKeys, line)
					before := len(srv.Log())
					theirErr := exec.Command(program, "-F", config, srv.Host, "true").Run()
					theirs := failuresIn(t, srv, before)
					for _, known := range append(c.names, "") {
						if known == good && known != "" {
							continue // it is right at once
						}
						d, err := New(testContext(t), Target{Host: srv.Host},
							&Config{ConfigFile: config, StateDir: t.TempDir()})
						if err != nil {
							t.Error(err)
							return
						}
						if known != "" {
							d.memory.noteKey(srv.User, srv.Port, hostKey,
								ssh.FingerprintSHA256(keys[known]))
						}
						before := len(srv.Log())
						conn, ourErr := d.Dial(testContext(t))
						if ourErr == nil {
							conn.Close()
						}
						ours, most := failuresIn(t, srv, before), theirs+c.early
						if known != "" {
							most++
						}
						var refused *AuthError
						if errors.As(ourErr, &refused) && len(refused.Keys) != ours {
							t.Errorf("%d tries, %s, good is %q, remembered %q: %d refusals, and the error "+
								"names %q", tries, c.name, good, known, ours, refused.Keys)
						}
						if ourErr != nil && theirErr == nil || ours > most {
							t.Errorf("%d tries, %s, good is %q, remembered %q: ssh fails %d times "+
								"(%v), usftp %d times (%v)", tries, c.name, good, known, theirs, theirErr,
								ours, ourErr)
						}
					}
				}
			})
		}
	}
}
