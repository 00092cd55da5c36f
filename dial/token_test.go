//go:build unix

package dial

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/usftp/usftp/internal/testenv"
	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"
)

// A tokenAgent is an agent with a key on a token (OpenSSH's PROTOCOL.u2f), which somebody has to
// touch for each signature.
type tokenAgent struct {
	agent.Agent
	public  ssh.PublicKey
	private ed25519.PrivateKey
	touched atomic.Int32
}

// startTokenAgent returns its socket, too.
func startTokenAgent(t testing.TB) (*tokenAgent, string) {
	t.Helper()
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	a := &tokenAgent{Agent: agent.NewKeyring(), private: private}
	a.public, err = ssh.ParsePublicKey(ssh.Marshal(struct {
		Type        string
		Key         []byte
		Application string
	}{ssh.KeyAlgoSKED25519, public, "ssh:"}))
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "agent")
	if err != nil {
		t.Fatal(err)
	}
	socket := filepath.Join(dir, "s")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	testenv.Accept(t, l, func(c net.Conn) { agent.ServeAgent(a, c) })
	return a, socket
}

func (a *tokenAgent) List() ([]*agent.Key, error) {
	return []*agent.Key{{Format: a.public.Type(), Blob: a.public.Marshal(), Comment: "token"}}, nil
}

func (a *tokenAgent) Sign(_ ssh.PublicKey, data []byte) (*ssh.Signature, error) {
	proof := binary.BigEndian.AppendUint32([]byte{1}, uint32(a.touched.Add(1)))
	what, whom := sha256.Sum256(data), sha256.Sum256([]byte("ssh:"))
	message := slices.Concat(whom[:], proof, what[:])
	return &ssh.Signature{Format: a.public.Type(), Blob: ed25519.Sign(a.private, message),
		Rest: proof}, nil
}

// TestTokenIsTouchedOnlyWhenWanted: a key on a token is not used before the server has said that it
// would do, even if it is the only one, or worked before.
func TestTokenIsTouchedOnlyWhenWanted(t *testing.T) {
	srv := newTestServer(t)
	token, socket := startTokenAgent(t)
	takesKeys(srv, token.public)
	config := Config{Options: []string{"IdentityAgent=" + socket}, StateDir: t.TempDir()}
	for run := range int32(3) {
		if f := logsIn(t, srv, config); !slices.Equal(f, []string{"none"}) {
			t.Errorf("run %d: refused were %v", run+1, f)
		}
		if n := token.touched.Load(); n != run+1 {
			t.Errorf("after %d logins the token was touched %d times", run+1, n)
		}
	}
	takesKeys(srv)
	_, err := srv.dialer(t, &config).Dial(testContext(t))
	if err == nil || !strings.Contains(err.Error(), "ED25519-SK SHA256:") {
		t.Errorf("without a key that is taken: %v", err)
	}
	if token.touched.Load() != 3 {
		t.Errorf("a server that does not want the key had it touched")
	}
}
