package dial

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"

	"golang.org/x/crypto/ssh"

	"github.com/usftp/usftp/internal/keyfile"
)

// A key on a FIDO2 token is used through ssh-sk-helper, which comes with OpenSSH and has the code
// that talks to tokens. It takes one request on its standard input and answers it: ssh-sk-client.c
// and ssh-sk-helper.c.

const (
	helperVersion = 5
	helperSign    = 1 // a request to sign, and its answer
	helperError   = 0 // the answer that carries one of OpenSSH's errors (ssherr.h)
	onlyErrors    = 2 // a log level

	wrongPassphrase = 43 // a PIN is needed, or wrong
	noDevice        = 60 // no token plugged in has the key
)

// helperPaths are the directories where systems have ssh-sk-helper.
var helperPaths = []string{"/usr/lib/openssh", "/usr/libexec/openssh", "/usr/libexec",
	"/usr/lib/ssh", "/usr/local/libexec", "/opt/homebrew/libexec"}

func (k *keyring) findHelper() string {
	if path, ok := k.s.env("SSH_SK_HELPER"); ok && path != "" {
		return path
	}
	for _, dir := range helperPaths {
		if path := dir + "/ssh-sk-helper"; isProgram(path) {
			return path
		}
	}
	return ""
}

func isProgram(path string) bool {
	fi, err := os.Stat(path)
	return err == nil && fi.Mode().IsRegular() && fi.Mode()&0o111 != 0
}

// signOnToken signs with the key in a file, whose token asks for a touch by itself. As in ssh the
// PIN is asked for when the token wants it, once.
func (k *keyring) signOnToken(file string, t *keyfile.Token, data []byte) (*ssh.Signature, error) {
	name := fmt.Sprintf("%s key %s", keyTypeName(t.Public), file)
	var pin string
	for asked := false; ; asked = true {
		if t.Touch {
			k.asker.log.Warn(fmt.Sprintf("confirm that you are there: touch the token of the %s", name))
		}
		sig, code, err := k.askHelper(t, data, pin)
		if err != nil {
			return nil, fmt.Errorf("the %s needs its token: %w", name, err)
		}
		switch {
		case code == 0:
			return sig, nil
		case code == wrongPassphrase && !asked:
			pin, err = k.asker.ask(k.ctx, k.s, Prompt{Kind: AskPIN, User: k.s.user, Host: k.s.alias,
				File: file, Text: fmt.Sprintf("Enter PIN for %s: ", name)})
			if err != nil {
				return nil, fmt.Errorf("the token of the %s needs its PIN: %w", name, err)
			}
		case code == wrongPassphrase:
			return nil, fmt.Errorf("the token of the %s did not accept the PIN", name)
		case code == noDevice:
			return nil, fmt.Errorf("no token that is plugged in has the %s", name)
		default:
			return nil, fmt.Errorf("the token of the %s did not sign (error %d of ssh-sk-helper)", name,
				code)
		}
	}
}

// askHelper asks for one signature. code is one of OpenSSH's errors, or 0.
func (k *keyring) askHelper(t *keyfile.Token, data []byte, pin string) (sig *ssh.Signature,
	code uint32, err error) {
	helper := k.findHelper()
	if helper == "" {
		return nil, 0, errors.New("OpenSSH's ssh-sk-helper is not installed here; an agent may hold the key instead (ssh-add)")
	}
	request := ssh.Marshal(struct {
		Length        uint32
		Version       byte
		Type          uint32
		LogsToStderr  bool
		LogLevel      uint32
		Key           []byte
		Provider      string
		Data          []byte
		Algorithm     string
		Compatibility uint32
		PIN           string
	}{0, helperVersion, helperSign, true, onlyErrors, t.Serialized, k.s.tokenProvider, data, "", 0,
		pin})
	binary.BigEndian.PutUint32(request, uint32(len(request)-4))
	var out bytes.Buffer
	stderr := new(tail)
	cmd := exec.CommandContext(k.ctx, helper)
	cmd.Env, cmd.Stdin, cmd.Stdout, cmd.Stderr = k.s.environ, bytes.NewReader(request), &out, stderr
	cmd.WaitDelay = closeLimit
	if err := cmd.Run(); err != nil {
		if k.ctx.Err() != nil {
			return nil, 0, causeOf(k.ctx, err)
		}
		if _, ran := errors.AsType[*exec.ExitError](err); !ran {
			return nil, 0, startError(helper, err)
		}
		return nil, 0, fmt.Errorf("ssh-sk-helper failed: %w: %s", err, stderr.line())
	}
	sig, code, err = parseHelper(out.Bytes())
	if code != 0 && stderr.line() != "" {
		k.asker.log.Debug("ssh-sk-helper: " + stderr.line())
	}
	return sig, code, err
}

// parseHelper parses the helper's answer.
func parseHelper(out []byte) (*ssh.Signature, uint32, error) {
	bad := errors.New("the answer of ssh-sk-helper is not valid; is it of another version?")
	var answer struct {
		Length  uint32
		Version byte
		Type    uint32
		Rest    []byte `ssh:"rest"`
	}
	if ssh.Unmarshal(out, &answer) != nil || answer.Version != helperVersion {
		return nil, 0, bad
	}
	switch answer.Type {
	case helperError:
		if len(answer.Rest) >= 4 {
			if code := binary.BigEndian.Uint32(answer.Rest); code != 0 {
				return nil, code, nil
			}
		}
	case helperSign:
		var blob struct{ Signature []byte }
		sig := new(ssh.Signature)
		if ssh.Unmarshal(answer.Rest, &blob) == nil && ssh.Unmarshal(blob.Signature, sig) == nil {
			return sig, 0, nil
		}
	}
	return nil, 0, bad
}
