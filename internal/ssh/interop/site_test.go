package interop_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	xssh "golang.org/x/crypto/ssh"

	"github.com/usftp/usftp/internal/soak"
	"github.com/usftp/usftp/internal/testenv"
	"github.com/usftp/usftp/sftptest/opensshd"
)

// user and secret log in everywhere.
const (
	user   = "ann"
	secret = "secret"
)

// blockSize is the unit of what is sent: the file "block" holds one.
const blockSize = 1 << 20

// command is what clients ask servers to run. Scripted servers recognize it.
const command = "cat; echo words >&2; exit 3"

// site is a directory that both ends read: host_TYPE are the server's keys, id_TYPE and id_TYPE.pub
// the user's, authorized_keys has all of the latter, and block is what to send.
type site struct {
	dir   string
	block []byte
	hosts []xssh.Signer
	ids   map[string]xssh.Signer
}

// keyTypes are ssh-keygen's names.
var keyTypes = []string{"ed25519", "ecdsa", "rsa"}

func newSite(t *testing.T) *site {
	t.Helper()
	s := &site{dir: t.TempDir(), ids: make(map[string]xssh.Signer)}
	opensshd.Find(t, "ssh-keygen") // not in Do: that would skip the first test only
	keys.once.Do(func() { keys.files = generate(t) })
	for name, text := range keys.files {
		must(t, os.WriteFile(s.file(name), text, 0o600))
	}
	var authorized []byte
	for _, kind := range keyTypes {
		s.hosts = append(s.hosts, key(t, s.file("host_"+kind)))
		s.ids[kind] = key(t, s.file("id_"+kind))
		authorized = append(authorized, keys.files["id_"+kind+".pub"]...)
	}
	s.block = make([]byte, blockSize)
	for i := range s.block {
		s.block[i] = byte(i*7 + i>>8)
	}
	must(t, os.WriteFile(s.file("authorized_keys"), authorized, 0o600))
	must(t, os.WriteFile(s.file("block"), s.block, 0o600))
	return s
}

// keys are the files of keys that every site has: ssh-keygen takes long for RSA.
var keys struct {
	once  sync.Once
	files map[string][]byte
}

func generate(t *testing.T) map[string][]byte {
	t.Helper()
	dir, files := t.TempDir(), make(map[string][]byte)
	for _, kind := range keyTypes {
		for _, name := range []string{"host_" + kind, "id_" + kind} {
			opensshd.Keygen(t, filepath.Join(dir, name), "-t", kind)
			for _, name := range []string{name, name + ".pub"} {
				text, err := os.ReadFile(filepath.Join(dir, name))
				must(t, err)
				files[name] = text
			}
		}
	}
	return files
}

func (s *site) file(name string) string { return filepath.Join(s.dir, name) }

func key(t *testing.T, file string) xssh.Signer {
	t.Helper()
	text, err := os.ReadFile(file)
	must(t, err)
	k, err := xssh.ParsePrivateKey(text)
	must(t, err)
	return k
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// node returns npm's ssh2.
func node(t testing.TB) []string {
	t.Helper()
	return []string{testenv.NodeSSH2(t), scripted("ssh2_peer.js")}
}

// java returns a library's program in testdata/java.
func java(library string) func(t testing.TB) []string {
	return func(t testing.TB) []string {
		dir := built(t, "USFTP_JAVA_PEERS")
		classes := filepath.Join(dir, "classes") + ":" + filepath.Join(dir, "lib", "*")
		return []string{opensshd.Find(t, "java"), "-cp", classes, "Peer", library}
	}
}

// russh returns the program in testdata/russh.
func russh(t testing.TB) []string { return []string{built(t, "USFTP_RUSSH_PEER")} }

// built returns where .ci/interop has built a peer. It takes long, and so do some of those peers:
// only the nightly run does it.
func built(t testing.TB, variable string) string {
	path := os.Getenv(variable)
	if path == "" {
		t.Skip("run by .ci/interop, which builds this peer ($" + variable + ")")
	}
	return path
}

// a peerCase is one session with a peer.
type peerCase struct {
	name  string // such as "kex/curve25519-sha256"
	login string // a type of key, "password" or "keyboard"
	mib   int    // how much is sent each way
}

const smallMiB = 3 // crosses the limit for new keys three times, or nearly

var largeMiB = soak.Pick(4, 64)

// cases returns the cases for a peer that offers these algorithms: each that we support too, each
// login, and one long session.
func cases(ours, theirs lists, logins []string, large int) (all []peerCase) {
	for i, what := range listNames {
		for _, a := range ours[i] {
			for _, b := range theirs[i] {
				if a == b {
					all = append(all, peerCase{what + "/" + a, "ed25519", smallMiB})
				}
			}
		}
	}
	for _, login := range logins {
		all = append(all, peerCase{"login/" + login, login, 1})
	}
	large = min(large, largeMiB)
	return append(all, peerCase{fmt.Sprintf("rekey/%d MiB", large), logins[0], large})
}

// share returns the cases that run with a peer: all if USFTP_SOAK is set, otherwise the long
// session and one in eight of the others, which differ from peer to peer.
func share(all []peerCase, peer int) (run []peerCase) {
	for i, c := range all {
		if i == len(all)-1 || soak.Share(i+peer, 8) {
			run = append(run, c)
		}
	}
	return run
}

// returned checks what a program prints as it comes: nothing here may depend on how fast a buffer
// of all of it grows.
type returned struct {
	want []byte // over and over
	size int64
	err  error
}

func (r *returned) Write(p []byte) (int, error) {
	for q := p; len(q) > 0 && r.err == nil; {
		at := int(r.size % int64(len(r.want)))
		n := min(len(q), len(r.want)-at)
		if !bytes.Equal(q[:n], r.want[at:at+n]) {
			r.err = fmt.Errorf("what came back differs near byte %d", r.size)
		}
		r.size += int64(n)
		q = q[n:]
	}
	return len(p), nil
}

// all returns an error unless exactly n blocks came back.
func (r *returned) all(n int) error {
	if want := int64(n) * blockSize; r.err == nil && r.size != want {
		return fmt.Errorf("%d bytes came back of %d", r.size, want)
	}
	return r.err
}

// scripted returns a peer that is our own program using a library: see testdata.
func scripted(name string) string {
	path, err := filepath.Abs(filepath.Join("testdata", name))
	if err != nil {
		panic(err) // there is no working directory
	}
	return path
}

func short(out []byte) string {
	return strings.TrimSpace(string(out[max(0, len(out)-2000):]))
}
