package dial

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/sha1"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/crypto/ssh"

	"github.com/usftp/usftp/internal/sshpattern"
	"golang.org/x/crypto/ssh/knownhosts"
)

// A knownKey is one line of a known_hosts file about our host.
type knownKey struct {
	file string
	line int
	key  ssh.PublicKey
}

// A knownSet has the lines of the known_hosts files about one host. The lines are parsed by
// x/crypto/ssh, but matched here: its knownhosts package rejects a whole file for one bad line,
// which OpenSSH skips, lets no wildcard match a port, and does not say which types of key are
// known.
type knownSet struct {
	keys, authorities, revoked []knownKey

	unread error // why one of the files could not be opened
}

// maxKnownHosts bounds the bytes read of one file; 64 MiB hold some 300,000 hosts.
const maxKnownHosts = 64 << 20

// readKnownHosts collects the lines about name. Files that do not exist count as empty. Bad lines
// are logged and skipped, and so are files that may not be opened.
func readKnownHosts(ctx context.Context, files []string, name string, a *asker) (*knownSet, error) {
	set := new(knownSet)
	for _, file := range files {
		f, err := openKnownHosts(ctx, file, a.pipes)
		if missing(err) {
			continue
		}
		path, unopened := errors.AsType[*fs.PathError](err)
		if err == nil {
			err = set.read(io.LimitReader(f, maxKnownHosts), file, name, a.log)
			f.Close()
			path, _ = errors.AsType[*fs.PathError](err)
		}
		if path != nil {
			err = path.Err
		}
		if err != nil {
			err = fmt.Errorf("known hosts: %s: %w", file, err)
		}
		if unopened { // ssh goes on without it, too
			set.unread = err
			a.warnOnce(err.Error())
		} else if err != nil {
			return nil, err
		}
	}
	return set, nil
}

func openKnownHosts(ctx context.Context, file string, pipes *KeyPipes) (io.ReadCloser, error) {
	if !pipes.has(file) {
		return os.Open(file)
	}
	text, _, err := pipes.read(ctx, file, maxKnownHosts)
	return io.NopCloser(bytes.NewReader(text)), err
}

func (set *knownSet) read(r io.Reader, file, name string, log *slog.Logger) error {
	lines := bufio.NewReader(r)
	for n := 1; ; n++ {
		line, err := lines.ReadBytes('\n')
		if text := bytes.TrimSpace(line); len(text) > 0 && text[0] != '#' {
			set.add(text, file, n, name, log)
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

func (set *knownSet) add(text []byte, file string, n int, name string, log *slog.Logger) {
	// The names come first, so that only lines about our host are parsed further:
	// files of tens of thousands of lines exist.
	fields := bytes.Fields(text)
	hosts := fields[0]
	if hosts[0] == '@' && len(fields) > 1 {
		hosts = fields[1]
	}
	if !matchHosts(string(hosts), name) {
		return
	}
	marker, _, key, _, _, err := ssh.ParseKnownHosts(text)
	if err != nil {
		log.Info("skipping an invalid line", "file", file, "line", n, "error", err)
		return
	}
	k := knownKey{file, n, key}
	switch marker {
	case "":
		set.keys = append(set.keys, k)
	case "cert-authority":
		set.authorities = append(set.authorities, k)
	case "revoked":
		set.revoked = append(set.revoked, k)
	default:
		log.Info("skipping a line with an unknown marker", "file", file, "line", n)
	}
}

// matchHosts reports whether the first field of a line is about name. It is a hashed name, or
// patterns of which one must match and none that starts with '!'.
func matchHosts(hosts, name string) bool {
	if strings.HasPrefix(hosts, "|") {
		return matchHashed(hosts, name)
	}
	return sshpattern.MatchList(strings.Split(hosts, ","),
		func(item string) (matches, negated bool) {
			pattern, negated := strings.CutPrefix(item, "!")
			return pattern != "" && sshpattern.Match(strings.ToLower(pattern), name), negated
		})
}

// matchHashed checks "|1|salt|hash", HMAC-SHA1 of the name (OpenSSH's hostfile.c).
func matchHashed(field, name string) bool {
	parts := strings.Split(field, "|")
	if len(parts) != 4 || parts[1] != "1" {
		return false
	}
	salt, err := base64.StdEncoding.DecodeString(parts[2])
	if err != nil {
		return false
	}
	want, err := base64.StdEncoding.DecodeString(parts[3])
	if err != nil {
		return false
	}
	mac := hmac.New(sha1.New, salt)
	mac.Write([]byte(name))
	return hmac.Equal(mac.Sum(nil), want)
}

func find(keys []knownKey, key ssh.PublicKey) (knownKey, bool) {
	blob := key.Marshal()
	for _, k := range keys {
		if bytes.Equal(k.key.Marshal(), blob) {
			return k, true
		}
	}
	return knownKey{}, false
}

// types returns the types of the keys known for the host, so that the server can be asked for one
// of them: a key of another type would look like a changed one.
func (set *knownSet) types() map[string]bool {
	types := make(map[string]bool)
	for _, k := range set.keys {
		types[k.key.Type()] = true
	}
	return types
}

// appendKnownHost adds a key to a file as OpenSSH does: the directory private, the file too, the
// name hashed if hash is set.
func appendKnownHost(file, name string, key ssh.PublicKey, hash bool) error {
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return err
	}
	if hash {
		name = knownhosts.HashHostname(name)
	}
	line := name + " " + strings.TrimSpace(string(ssh.MarshalAuthorizedKey(key))) + "\n"
	f, err := os.OpenFile(file, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	// A last line without its end would swallow ours.
	if fi, err := f.Stat(); err == nil && fi.Size() > 0 {
		last := make([]byte, 1)
		if _, err := f.ReadAt(last, fi.Size()-1); err == nil && last[0] != '\n' {
			line = "\n" + line
		}
	}
	_, err = f.WriteString(line)
	return cmp.Or(err, f.Close())
}
