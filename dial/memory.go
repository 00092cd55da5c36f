package dial

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/usftp/usftp/internal/localfs"
	own "github.com/usftp/usftp/internal/ssh"
)

// A memory is the file that remembers which key worked, and which servers do not support a login in
// one flight. Each note is one line, the oldest first, after a first line that names the format. It
// has no hosts or users, only hashes of the facts known about a server once it has proved its
// identity. A note is a hint: a wrong one costs a round trip. A nil *memory remembers nothing.
type memory struct {
	file string
	log  *slog.Logger
}

const (
	memoryFormat = "usftp logins 1"
	// maxMemory limits the lines kept, maxMemoryFile the bytes read.
	maxMemory     = 256
	maxMemoryFile = 64 << 10

	noteKey      = "key"      // value: the fingerprint of the key that worked
	noteStepwise = "stepwise" // value: the time of the note, in seconds since 1970

	// stepwiseFor is how long a server is believed not to support the flight: it may be replaced by
	// one that does, and the apparent refusal may have been the link's fault.
	stepwiseFor = 7 * 24 * time.Hour
)

// A note is one line: its kind, its subject, and its value.
type note struct{ kind, about, value string }

func newMemory(c *Config) *memory {
	if c.StateDir == "" {
		return nil
	}
	return &memory{filepath.Join(c.StateDir, "logins"), c.logger()}
}

// about hashes the subject of a note.
func about(user string, port int, host ssh.PublicKey) string {
	h := sha256.New()
	fmt.Fprintf(h, "%s\x00%q\x00%d\x00", memoryFormat, user, port)
	h.Write(own.PlainKey(host).Marshal())
	return base64.RawStdEncoding.EncodeToString(h.Sum(nil))
}

// key returns the fingerprint of the key that worked, or "" if none is known.
func (m *memory) key(user string, port int, host ssh.PublicKey) string {
	return m.find(noteKey, about(user, port, host))
}

func (m *memory) noteKey(user string, port int, host ssh.PublicKey, fingerprint string) {
	m.put(note{noteKey, about(user, port, host), fingerprint})
}

func (m *memory) forgetKey(user string, port int, host ssh.PublicKey) {
	m.drop(noteKey, about(user, port, host))
}

// refuses reports whether a server has lately proved not to support a login in one flight.
func (m *memory) refuses(host ssh.PublicKey) bool {
	noted, err := strconv.ParseInt(m.find(noteStepwise, about("", 0, host)), 10, 64)
	age := time.Since(time.Unix(noted, 0))
	return err == nil && age >= -time.Second && age < stepwiseFor // a note from the future is wrong
}

func (m *memory) noteRefusal(host ssh.PublicKey) {
	m.put(note{noteStepwise, about("", 0, host), strconv.FormatInt(time.Now().Unix(), 10)})
}

func (m *memory) find(kind, about string) string {
	for _, n := range m.read() {
		if n.kind == kind && n.about == about {
			return n.value
		}
	}
	return ""
}

// put adds a note, or replaces an older one about the same thing. If the note exists already and
// will not be dropped soon for its age, put writes nothing.
func (m *memory) put(n note) {
	notes := m.read()
	if i := slices.Index(notes, n); i >= 0 && len(notes)-i < maxMemory/2 {
		return
	}
	m.write(append(without(notes, n.kind, n.about), n))
}

func (m *memory) drop(kind, about string) {
	notes := m.read()
	if rest := without(notes, kind, about); len(rest) < len(notes) {
		m.write(rest)
	}
}

func without(notes []note, kind, about string) []note {
	return slices.DeleteFunc(slices.Clone(notes),
		func(n note) bool { return n.kind == kind && n.about == about })
}

func (m *memory) read() []note {
	if m == nil {
		return nil
	}
	f, err := os.Open(m.file)
	if err != nil {
		return nil
	}
	defer f.Close()
	if fi, err := f.Stat(); err != nil || !fi.Mode().IsRegular() {
		return nil
	}
	text, err := io.ReadAll(io.LimitReader(f, maxMemoryFile))
	if err != nil {
		return nil
	}
	return parseMemory(text)
}

// parseMemory reads renderMemory's output. It ignores files of another format and malformed lines.
func parseMemory(text []byte) []note {
	format, rest, _ := strings.Cut(string(text), "\n")
	if format != memoryFormat {
		return nil
	}
	var notes []note
	for line := range strings.SplitSeq(rest, "\n") {
		f := strings.Split(line, " ")
		if len(f) == 3 && (note{f[0], f[1], f[2]}).good() {
			notes = append(notes, note{f[0], f[1], f[2]})
		}
	}
	return notes[max(0, len(notes)-maxMemory):]
}

func (n note) good() bool {
	sum, err := base64.RawStdEncoding.Strict().DecodeString(n.about)
	if err != nil || len(sum) != sha256.Size {
		return false
	}
	switch n.kind {
	case noteKey:
		sum, ok := strings.CutPrefix(n.value, "SHA256:")
		raw, err := base64.RawStdEncoding.Strict().DecodeString(sum)
		return ok && err == nil && len(raw) == sha256.Size
	case noteStepwise:
		_, err := strconv.ParseInt(n.value, 10, 64)
		return err == nil
	}
	return false
}

func renderMemory(notes []note) []byte {
	var b bytes.Buffer
	fmt.Fprintln(&b, memoryFormat)
	for _, n := range notes[max(0, len(notes)-maxMemory):] {
		fmt.Fprintln(&b, n.kind, n.about, n.value)
	}
	return b.Bytes()
}

// write replaces the whole file. If two programs do so at the same time, one note is lost until the
// next login makes it again.
func (m *memory) write(notes []note) {
	if m == nil {
		return
	}
	if err := m.replace(renderMemory(notes)); err != nil {
		m.log.Debug("the login could not be remembered", "error", err)
	}
}

func (m *memory) replace(text []byte) error {
	if err := os.MkdirAll(filepath.Dir(m.file), 0o700); err != nil {
		return err
	}
	return localfs.ReplacePrivate(m.file, text)
}
