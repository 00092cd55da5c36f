package dial

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync"

	"golang.org/x/crypto/ssh"

	"github.com/usftp/usftp/internal/keyfile"
)

// errNobody means that there is nobody to ask.
var errNobody = errors.New("there is nobody to ask")

// An asker asks questions for a Dialer and its jump hosts, one at a time, and keeps the answers, so
// that a person's answer serves later connections.
type asker struct {
	prompter Prompter
	log      *slog.Logger

	turn chan struct{} // holds the right to ask

	pipes *KeyPipes

	mu          sync.Mutex
	passphrases map[string][]byte          // by file
	accepted    map[string][]ssh.PublicKey // host keys, by name
	warned      map[string]bool
}

func newAsker(c *Config) *asker {
	return &asker{
		prompter: c.Prompter, log: c.logger(), turn: make(chan struct{}, 1),
		pipes:       cmp.Or(c.KeyPipes, new(KeyPipes)),
		passphrases: make(map[string][]byte), accepted: make(map[string][]ssh.PublicKey),
		warned: make(map[string]bool),
	}
}

// warnOnce warns of what each login would warn of.
func (a *asker) warnOnce(text string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.warned[text] {
		a.warned[text] = true
		a.log.Warn(text)
	}
}

// accept remembers a host's key, if it is the first or others are allowed, and reports whether it
// is new.
func (a *asker) accept(name string, key ssh.PublicKey, others bool) (fresh, ok bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.has(name, key) {
		return false, true
	}
	if !others && len(a.accepted[name]) > 0 {
		return false, false
	}
	a.accepted[name] = append(a.accepted[name], key)
	return true, true
}

func (a *asker) isAccepted(name string, key ssh.PublicKey) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.has(name, key)
}

// has reports whether a key was accepted. The caller holds the lock.
func (a *asker) has(name string, key ssh.PublicKey) bool {
	return slices.ContainsFunc(a.accepted[name],
		func(k ssh.PublicKey) bool { return sameKey(k, key) })
}

// hasAccepted reports whether any key of a host was accepted.
func (a *asker) hasAccepted(name string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.accepted[name]) > 0
}

func (a *asker) canAsk(s *settings) bool { return a.prompter != nil && !s.batch }

// lock waits for a turn to ask.
func (a *asker) lock(ctx context.Context) error {
	select {
	case a.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (a *asker) unlock() { <-a.turn }

func (a *asker) ask(ctx context.Context, s *settings, p Prompt) (string, error) {
	if !a.canAsk(s) {
		return "", errNobody
	}
	if err := a.lock(ctx); err != nil {
		return "", err
	}
	defer a.unlock()
	return a.prompter.Prompt(ctx, p)
}

// maxAnswers is how often a yes-or-no question is repeated.
const maxAnswers = 3

// hostKey asks whether to trust an unknown key. fresh is false if the question was answered for
// another connection while this one waited.
func (a *asker) hostKey(ctx context.Context, s *settings, remote net.Addr, key ssh.PublicKey,
	problem *HostKeyError) (fresh bool, err error) {
	if !a.canAsk(s) {
		problem.Note = errNobody.Error()
		return false, problem
	}
	if err := a.lock(ctx); err != nil {
		return false, err
	}
	defer a.unlock()
	if a.isAccepted(problem.Name, key) {
		return false, nil
	}
	if a.hasAccepted(problem.Name) {
		problem.Problem = HostKeyChanged
		return false, problem
	}
	p := Prompt{
		Kind: AskHostKey, User: s.user, Host: s.alias, Echo: true,
		KeyType: problem.KeyType, Fingerprint: problem.Fingerprint,
		Text: fmt.Sprintf("The authenticity of host '%s (%s)' can't be established.\n%s key fingerprint is %s.\nAre you sure you want to continue connecting (yes/no/[fingerprint])? ",
			problem.Name, remote, problem.KeyType, problem.Fingerprint),
	}
	for range maxAnswers {
		answer, err := a.prompter.Prompt(ctx, p)
		if err != nil {
			problem.Note = "the question about it was not answered: " + err.Error()
			return false, problem
		}
		switch answer = strings.TrimSpace(answer); {
		case strings.EqualFold(answer, "yes"), answer == problem.Fingerprint:
			fresh, _ := a.accept(problem.Name, key, true)
			return fresh, nil
		case strings.EqualFold(answer, "no"):
			problem.Note = "it was not accepted"
			return false, problem
		}
		p.Text = "Please type 'yes', 'no' or the fingerprint: "
	}
	problem.Note = "the question about it was not answered"
	return false, problem
}

// kept returns the passphrase that a person gave for a key, or nil.
func (a *asker) kept(file string) []byte {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.passphrases[file]
}

// passphrase returns the passphrase for a key, asking until open accepts one.
func (a *asker) passphrase(ctx context.Context, s *settings, file string,
	open func([]byte) error) error {
	if kept := a.kept(file); kept != nil && open(kept) == nil {
		return nil
	}
	if !a.canAsk(s) {
		return errNobody
	}
	if err := a.lock(ctx); err != nil {
		return err
	}
	defer a.unlock()
	if kept := a.kept(file); kept != nil && open(kept) == nil {
		return nil
	}
	for range max(1, s.prompts) {
		answer, err := a.prompter.Prompt(ctx, Prompt{
			Kind: AskPassphrase, User: s.user, Host: s.alias, File: file,
			Text: fmt.Sprintf("Enter passphrase for key '%s': ", file),
		})
		if err != nil {
			return err
		}
		if answer == "" { // as in ssh: on to the next key
			break
		}
		err = open([]byte(answer))
		if err == nil {
			a.mu.Lock()
			a.passphrases[file] = []byte(answer)
			a.mu.Unlock()
			return nil
		}
		if !errors.Is(err, keyfile.ErrPassphrase) { // another passphrase would not help
			return err
		}
	}
	return errors.New("no passphrase unlocked it")
}
