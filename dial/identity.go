package dial

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"runtime"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"

	"github.com/usftp/usftp/internal/keyfile"
	own "github.com/usftp/usftp/internal/ssh"
)

// A credential is one key to offer. It is a signer that asks for a passphrase only when it must
// sign, which is when the server has said that it would accept the key.
type credential struct {
	name   string // the file, or the agent's comment
	public ssh.PublicKey
	algos  []string // signature algorithms, ours to choose from
	sign   func(rand io.Reader, data []byte, algo string) (*ssh.Signature, error)
	person bool         // each signature needs a touch
	locked bool         // the first signature needs a passphrase that nobody has given yet
	agent  bool         // from an agent, which does not say whether it needs a person
	turn   int          // its place in ssh's order
	key    *keyfile.Key // a file's
}

func (c *credential) PublicKey() ssh.PublicKey { return c.public }
func (c *credential) Algorithms() []string     { return c.algos }

func (c *credential) Sign(rand io.Reader, data []byte) (*ssh.Signature, error) {
	return c.SignWithAlgorithm(rand, data, "")
}

func (c *credential) SignWithAlgorithm(rand io.Reader, data []byte,
	algo string) (*ssh.Signature, error) {
	return c.sign(rand, data, algo)
}

// same reports whether both are the same key. A key hidden by its passphrase is known by its file.
func (c *credential) same(d *credential) bool {
	if c.public == nil || d.public == nil {
		return c.public == d.public && c.name == d.name
	}
	return sameKey(c.public, d.public)
}

// byTurn orders keys as ssh offers them.
func byTurn(a, b *credential) int { return a.turn - b.turn }

// String names the key for messages.
func (c *credential) String() string {
	kind := keyTypeName(c.public)
	if isCertAlgo(c.public.Type()) {
		kind += "-CERT"
	}
	return fmt.Sprintf("%s %s %s", kind, ssh.FingerprintSHA256(c.public), c.name)
}

// A keyring gathers the credentials for one login.
type keyring struct {
	ctx   context.Context
	s     *settings
	asker *asker
	agent agent.Agent
	conn  io.Closer // the agent's, nil without one
	notes []string
}

func openKeyring(ctx context.Context, s *settings, a *asker) *keyring {
	k := &keyring{ctx: ctx, s: s, asker: a}
	if s.agent == "" || !s.pubkey {
		return k
	}
	conn, err := dialAgent(ctx, s.agent)
	switch {
	case runtime.GOOS == "windows" && missing(err): // where the usual pipe is tried without being named
		a.log.Info("no agent", "socket", s.agent)
		return k
	case err != nil:
		k.note("no agent answers at %s: %s", s.agent, plain(err))
		return k
	}
	k.conn, k.agent = conn, agent.NewClient(conn)
	return k
}

// bind tells the agent which session its signatures are for (PROTOCOL.agent, session-bind). It may
// hold keys for some hosts only (ssh-add -h), which it does not use for a session that it does not
// know. Agents that do not understand this refuse it.
func (k *keyring) bind(conn *own.Conn) {
	extended, ok := k.agent.(agent.ExtendedAgent)
	if !ok {
		return
	}
	key, proof := conn.HostProof()
	_, err := extended.Extension("session-bind@openssh.com", ssh.Marshal(struct {
		Key, Session, Signature []byte
		Forwarded               bool
	}{key.Marshal(), conn.SessionID(), proof, false}))
	k.asker.log.Debug("the agent was told of the session", "host", k.s.alias, "error", err)
}

func (k *keyring) close() {
	if k.conn != nil {
		k.conn.Close()
	}
}

func (k *keyring) note(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	k.asker.log.Info(text, "host", k.s.alias)
	k.notes = append(k.notes, text)
}

// A keyFile is the content found under the name of an identity.
type keyFile struct {
	identityFile
	public  ssh.PublicKey // nil if a passphrase hides it
	private *credential   // nil if only a public key was found
	err     error         // why an existing private key is not used
}

// credentials lists the keys in the order in which to offer them, the likeliest first: each refused
// key costs a round trip, and servers hang up after six. The order is OpenSSH's (certificates, keys
// of the agent that the configuration names, other keys of the agent, files), except that
// explicitly named files precede the agent's keys that are not named. If a server hangs up over
// them, the login is made again in OpenSSH's order, which their turns give.
func (k *keyring) credentials() []*credential {
	if !k.s.pubkey {
		return nil
	}
	if module := k.s.pkcs11; module != "" {
		k.note("the keys of the PKCS #11 module %s are used only from an agent: ssh-add -s %[1]s", module)
	}
	var files []keyFile
	for _, id := range k.s.identities {
		if f, ok := k.load(id); ok {
			files = append(files, f)
		}
	}
	// A key whose passphrase was typed needs no agent, which may ask about each signature.
	fromAgent := slices.DeleteFunc(k.agentKeys(), func(c *credential) bool {
		return slices.ContainsFunc(files, func(f keyFile) bool {
			return f.private != nil && f.private.key.Locked && !f.private.locked &&
				f.public != nil && sameKey(f.public, c.public)
		})
	})
	signerFor := func(key ssh.PublicKey) *credential {
		for _, c := range fromAgent {
			if sameKey(c.public, key) {
				return c
			}
		}
		for _, f := range files {
			if f.private != nil && f.public != nil && sameKey(f.public, key) {
				return f.private
			}
		}
		return nil
	}
	var certs, named, explicit, others, defaults, inFiles []*credential
	for _, c := range k.certificates() {
		if signer := signerFor(c.cert.Key); signer != nil {
			cert := *signer
			cert.name, cert.public = c.file, c.cert
			certs = append(certs, &cert)
		} else if c.explicit {
			k.note("certificate %s has no private key here", c.file)
		}
	}
	for _, f := range files {
		if f.public != nil {
			if held := signerFor(f.public); held != nil && held.agent {
				if !slices.Contains(named, held) {
					named = append(named, held)
				}
				continue
			}
		}
		switch c := f.private; {
		case c != nil && f.explicit:
			explicit, inFiles = append(explicit, c), append(inFiles, c)
		case c != nil:
			defaults, inFiles = append(defaults, c), append(inFiles, c)
		case f.err != nil:
			k.note("%v", f.err)
		case f.explicit:
			k.note("%s is a public key, and no agent holds its private half", f.path)
		}
	}
	for _, c := range fromAgent {
		if !k.s.identitiesOnly && !slices.Contains(named, c) {
			others = append(others, c)
		}
	}
	for i, c := range slices.Concat(certs, named, others, inFiles) {
		c.turn = i
	}
	return k.usable(slices.Concat(certs, named, explicit, others, defaults))
}

// usable determines the signature algorithms, and drops duplicates and keys that may not be used.
func (k *keyring) usable(all []*credential) []*credential {
	var out []*credential
	seen := make(map[string]bool)
	for _, c := range all {
		if c.public == nil { // only its passphrase reveals it
			out = append(out, c)
			continue
		}
		blob := string(c.public.Marshal())
		if seen[blob] {
			continue
		}
		seen[blob] = true
		if err := k.admit(c); err != nil {
			k.note("%v", err)
			continue
		}
		out = append(out, c)
	}
	return out
}

// admit determines a key's signature algorithms. It returns an error if the key may not be used.
func (k *keyring) admit(c *credential) error {
	if c.algos = k.algorithms(c.public); len(c.algos) == 0 {
		return fmt.Errorf("%v is of a type that PubkeyAcceptedAlgorithms does not allow", c)
	}
	if bits := rsaBits(c.public); bits > 0 && bits < k.s.minRSABits {
		return fmt.Errorf("%v has %d bits; RequiredRSASize requires %d", c, bits, k.s.minRSABits)
	}
	return nil
}

func (k *keyring) algorithms(key ssh.PublicKey) []string {
	t := key.Type()
	var algos []string
	for _, a := range k.s.pubkeyAlgos {
		if isCertAlgo(a) == isCertAlgo(t) && keyType(a) == keyType(t) {
			algos = append(algos, own.BaseAlgo(a))
		}
	}
	return algos
}

func (k *keyring) agentKeys() []*credential {
	if k.agent == nil {
		return nil
	}
	signers, err := k.agent.Signers()
	if err != nil {
		k.note("the agent at %s does not list its keys: %v", k.s.agent, err)
		return nil
	}
	var out []*credential
	for _, s := range signers {
		algoSigner, ok := s.(ssh.AlgorithmSigner)
		if !ok {
			continue
		}
		// Parsed, to give access to its size and its certificate.
		public, err := ssh.ParsePublicKey(s.PublicKey().Marshal())
		if err != nil {
			public = s.PublicKey()
		}
		name := "agent"
		if key, ok := s.PublicKey().(*agent.Key); ok && key.Comment != "" {
			name = printable([]byte(key.Comment))
		}
		sign := algoSigner.SignWithAlgorithm
		out = append(out, &credential{name: name, public: public, sign: sign,
			agent: true, person: strings.HasPrefix(public.Type(), "sk-")})
	}
	return out
}

// maxKeyFile limits the size of a key file, as OpenSSH does.
const maxKeyFile = 1 << 20

// missing reports whether an error means that there is no such file. The home directory of a
// service may be /dev/null.
func missing(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR)
}

func readSmall(path string, most int64) ([]byte, fs.FileInfo, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	fi, err := f.Stat()
	if err != nil {
		return nil, nil, err
	}
	if !fi.Mode().IsRegular() && fi.Mode()&fs.ModeNamedPipe == 0 {
		return nil, nil, &fs.PathError{Op: "read", Path: path, Err: errors.New("not a file")}
	}
	text, err := io.ReadAll(io.LimitReader(f, most))
	return text, fi, err
}

// readPublic reads a public key or certificate, one line as in authorized_keys.
func readPublic(path string) (ssh.PublicKey, error) {
	text, _, err := readSmall(path, maxKeyFile)
	if err != nil {
		return nil, err
	}
	key, _, _, _, err := ssh.ParseAuthorizedKey(text)
	return key, err
}

// readKey reads a key file, which may be a pipe.
func (k *keyring) readKey(path string) ([]byte, fs.FileInfo, error) {
	if k.asker.pipes.has(path) {
		return k.asker.pipes.read(k.ctx, path, maxKeyFile)
	}
	return readSmall(path, maxKeyFile)
}

// load reads one identity. If the file does not exist, or the private key is elsewhere (in an
// agent), there may still be a file with its public half.
func (k *keyring) load(id identityFile) (keyFile, bool) {
	f := keyFile{identityFile: id}
	text, fi, err := k.readKey(id.path)
	if err != nil {
		if f.public, _ = readPublic(id.path + ".pub"); f.public != nil {
			if !missing(err) {
				f.err = unread(id.path, err)
			}
			return f, true
		}
		if id.explicit || !missing(err) {
			k.note("%v", unread(id.path, err))
		}
		return f, false
	}
	if key, _, _, _, err := ssh.ParseAuthorizedKey(text); err == nil {
		f.public = key
		return f, true
	}
	key, err := keyfile.Parse(text)
	if err == nil {
		f.public = key.Public
	}
	if f.public == nil {
		f.public, _ = readPublic(id.path + ".pub")
	}
	switch { // an agent may hold what is no use here
	case err != nil:
		f.err = fmt.Errorf("the key %s cannot be used: %w; an agent may hold it instead (ssh-add)",
			id.path, err)
	case tooOpen(fi):
		f.err = fmt.Errorf("%s is ignored: others can read it (mode %04o)", id.path, fi.Mode().Perm())
	default:
		f.private = k.credential(f, key)
	}
	return f, true
}

// unread says that a key's file cannot be read.
func unread(name string, err error) error {
	if path, ok := errors.AsType[*fs.PathError](err); ok {
		err = path.Err
	}
	return fmt.Errorf("the key %s cannot be read: %w", name, err)
}

// credential makes a credential that asks for the passphrase at the first signature.
func (k *keyring) credential(f keyFile, key *keyfile.Key) *credential {
	c := &credential{name: f.path, public: f.public, key: key,
		locked: key.Locked && k.asker.kept(f.path) == nil,
		person: f.public != nil && strings.HasPrefix(f.public.Type(), "sk-")}
	c.sign = func(rand io.Reader, data []byte, algo string) (*ssh.Signature, error) {
		p, err := k.open(c)
		switch {
		case err != nil:
			return nil, err
		case p.Token != nil:
			return k.signOnToken(c.name, p.Token, data)
		}
		return p.Signer.SignWithAlgorithm(rand, data, algo)
	}
	return c
}

// open returns the private key of a file, and asks for its passphrase if it has one.
func (k *keyring) open(c *credential) (p *keyfile.Private, err error) {
	if !c.key.Locked {
		return c.key.Open(nil)
	}
	typed := k.asker.kept(c.name) == nil
	err = k.asker.passphrase(k.ctx, k.s, c.name, func(passphrase []byte) (err error) {
		p, err = c.key.Open(passphrase)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("the key %s needs its passphrase: %w", c.name, err)
	}
	if typed {
		k.keep(c, p)
	}
	return p, nil
}

// reveal finds the public half of a key that only its passphrase reveals.
func (k *keyring) reveal(c *credential) error {
	p, err := k.open(c)
	if err != nil {
		return err
	}
	// a token's key is never hidden; the passphrase's cost is paid once
	c.public, c.sign = p.Signer.PublicKey(), p.Signer.SignWithAlgorithm
	return k.admit(c)
}

type certFile struct {
	file     string
	cert     *ssh.Certificate
	explicit bool
}

// certificates reads the certificates that CertificateFile names, and those next to the keys.
func (k *keyring) certificates() []certFile {
	var out []certFile
	read := func(path string, explicit bool) {
		text, _, err := k.readKey(path) // it may be in a pipe, like a key
		var key ssh.PublicKey
		if err == nil {
			key, _, _, _, err = ssh.ParseAuthorizedKey(text)
		}
		cert, ok := key.(*ssh.Certificate)
		switch {
		case err == nil && ok && cert.CertType == ssh.UserCert:
			out = append(out, certFile{path, cert, explicit})
		case explicit && err == nil:
			k.note("%s is not a user certificate", path)
		case explicit:
			k.note("certificate %v", err)
		}
	}
	for _, path := range k.s.certificates {
		read(path, true)
	}
	for _, id := range k.s.identities {
		read(id.path+"-cert.pub", false)
	}
	return out
}
