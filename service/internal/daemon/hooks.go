package daemon

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/usftp/usftp/internal/ui"
	"github.com/usftp/usftp/service/internal/hooks"
	"github.com/usftp/usftp/service/internal/store"
)

type hookTable struct {
	Name    string       `toml:"name"`
	On      []kindText   `toml:"on"`
	Users   []string     `toml:"users"`
	URL     hookURL      `toml:"url"`
	Command []string     `toml:"command"`
	Secret  string       `toml:"secret"`
	Timeout durationText `toml:"timeout"`
	GiveUp  durationText `toml:"give_up"`
	AtOnce  countNumber  `toml:"at_once"`

	// of accept
	Clamd     clamdText     `toml:"clamd"`
	MaxSize   sizeText      `toml:"max_size"`
	Unchecked uncheckedText `toml:"unchecked"`
}

type (
	kindText      struct{ checked }
	hookURL       struct{ checked }
	clamdText     struct{ checked }
	uncheckedText struct{ checked }
)

func (k *kindText) UnmarshalText(text []byte) error {
	k.text = string(text)
	if !slices.Contains(hooks.Kinds, hooks.Kind(k.text)) {
		return at(text, fmt.Errorf("unknown event %q; use %s", text, joined(hooks.Kinds)))
	}
	return nil
}

func joined(kinds []hooks.Kind) string {
	var all []string
	for _, kind := range kinds {
		all = append(all, string(kind))
	}
	return strings.Join(all, ", ")
}

func (u *hookURL) UnmarshalText(text []byte) error {
	u.text = string(text)
	made, err := url.Parse(u.text)
	if err != nil || made.Scheme != "https" && made.Scheme != "http" || made.Host == "" {
		return at(text, errors.New("a hook's URL is https://HOST/PATH"))
	}
	return nil
}

func (c *clamdText) UnmarshalText(text []byte) (err error) {
	c.text = string(text)
	network, address := hooks.ClamdAddress(c.text)
	if network == "tcp" {
		_, _, err = net.SplitHostPort(address)
	}
	if err != nil || network == "unix" && !filepath.IsAbs(address) {
		return at(text, errors.New("clamd is at the path of its socket, or at tcp://HOST:PORT"))
	}
	return nil
}

func (u *uncheckedText) UnmarshalText(text []byte) error {
	u.text = string(text)
	if u.text != "refuse" && u.text != "accept" {
		return at(text, fmt.Errorf("%q: must be refuse or accept", text))
	}
	return nil
}

var hookName = regexp.MustCompile(`^[a-z0-9][a-z0-9_-]{0,63}$`)

// hook interprets one hook.
func (f *configFile) hook(i int, table *hookTable) (*hooks.Hook, error) {
	wrong := func(key, format string, args ...any) (*hooks.Hook, error) {
		return nil, f.wrong(entry("hooks", i), key, fmt.Errorf(format, args...))
	}
	made := &hooks.Hook{Name: table.Name, Users: table.Users, URL: table.URL.text,
		Timeout: table.Timeout.Duration, GiveUp: table.GiveUp.Duration,
		AtOnce: int(table.AtOnce), Clamd: table.Clamd.text, MaxSize: int64(table.MaxSize),
		AcceptUnchecked: table.Unchecked.text == "accept"}
	for _, kind := range table.On {
		made.On = append(made.On, hooks.Kind(kind.text))
	}
	switch {
	case !hookName.MatchString(table.Name):
		return wrong("name", "%q is no name for a hook: use a-z, 0-9, _ and -", table.Name)
	case slices.ContainsFunc(f.made.hooks,
		func(h *hooks.Hook) bool { return h.Name == table.Name }):
		return wrong("name", "hook %q already exists", table.Name)
	case len(made.On) == 0:
		return wrong("on", "hook %s needs events: %s", table.Name, joined(hooks.Kinds))
	case slices.Contains(made.On, hooks.Accept) && len(made.On) > 1:
		return wrong("on", "a hook that is asked is told of nothing else: make another for accept")
	case count(made.URL != "", len(table.Command) > 0, made.Clamd != "") != 1:
		return wrong("name", "hook %s needs one of url, command and, for accept, clamd", table.Name)
	case made.On[0] != hooks.Accept && made.Clamd != "":
		return wrong("clamd", "clamd can only accept or refuse files: on = [\"accept\"]")
	case made.On[0] != hooks.Accept && (made.MaxSize > 0 || table.Unchecked.text != ""):
		return wrong("on", "max_size and unchecked are for accept")
	case made.On[0] == hooks.Accept && made.GiveUp > 0:
		return wrong("give_up", "accept is asked once: set timeout")
	case table.Users != nil && len(table.Users) == 0:
		return wrong("users", "an empty list would mean everybody: leave the setting out for that")
	case table.Secret != "" && made.URL == "":
		return wrong("secret", "only what is posted to a url is signed")
	case made.AtOnce > 1000:
		return wrong("at_once", "at most 1000 at once")
	}
	var err error
	if made.Command, err = f.program(table.Command); err != nil {
		return wrong("command", "%w", err)
	}
	if made.Secret, err = f.secret(table.Secret); err != nil {
		return wrong("secret", "%w", err)
	}
	return made, nil
}

func count(all ...bool) (n int) {
	for _, is := range all {
		if is {
			n++
		}
	}
	return n
}

// program finds the program of a command: its path, relative to the file, or its name, in PATH.
func (f *configFile) program(words []string) ([]string, error) {
	if len(words) == 0 {
		return nil, nil
	}
	words = slices.Clone(words)
	if strings.ContainsRune(filepath.ToSlash(words[0]), '/') {
		absolute, err := filepath.Abs(f.path(words[0]))
		if err != nil {
			return nil, err
		}
		words[0] = absolute
	}
	found, err := exec.LookPath(words[0])
	if outer, ok := errors.AsType[*exec.Error](err); ok {
		return nil, fmt.Errorf("%s: %w", words[0], outer.Err)
	}
	words[0] = found
	return words, err
}

// secret reads a file with a secret, in the form of Standard Webhooks (whsec_ and base64) or any
// other.
func (f *configFile) secret(name string) ([]byte, error) {
	if name == "" {
		return nil, nil
	}
	name = f.path(name)
	data, err := f.readSecret(name)
	if err != nil {
		return nil, err
	}
	text := strings.TrimSpace(string(data))
	encoded, whsec := strings.CutPrefix(text, "whsec_")
	if whsec {
		if data, err = base64.StdEncoding.DecodeString(encoded); err != nil {
			return nil, fmt.Errorf("%s: what follows whsec_ is not base64", name)
		}
		text = string(data)
	}
	if len(text) < 16 {
		return nil, fmt.Errorf("%s: a secret of fewer than 16 bytes can be guessed", name)
	}
	return []byte(text), nil
}

// readableByOthers returns an error for a file of secrets that others can read.
func (f *configFile) readableByOthers(name string) error {
	f.made.secrets = append(f.made.secrets, name)
	info, err := os.Stat(name)
	if err == nil && runtime.GOOS != "windows" && info.Mode().Perm()&0o077 != 0 {
		err = fmt.Errorf("others can read %s (mode %04o): run chmod 600 on it", name,
			info.Mode().Perm())
	}
	return err
}

// readSecret reads a file of secrets, which others must not be able to read.
func (f *configFile) readSecret(name string) ([]byte, error) {
	if err := f.readableByOthers(name); err != nil {
		return nil, err
	}
	return os.ReadFile(name)
}

// describe returns a text that differs if the hooks do.
func describe(all []*hooks.Hook) (text string) {
	for _, hook := range all {
		text += fmt.Sprintf("%+v", *hook)
	}
	return text
}

// useHooks connects the hooks to the server's events.
func (s *service) useHooks() error {
	if len(s.started.hooks) == 0 {
		return nil
	}
	told := slices.DeleteFunc(slices.Clone(s.started.hooks), func(h *hooks.Hook) bool {
		return h.On[0] == hooks.Accept
	})
	if s.store == nil && len(told) > 0 {
		return errors.New("hooks need a store, which remembers what they are to be told: set " +
			"file in [store]")
	}
	s.hooks = hooks.New(s.started.hooks, s.store, s.Log)
	s.hooks.Root = func(user, path string) (string, string) {
		root, folder := s.RootOf(user, path)
		if absolute, err := filepath.Abs(root); err == nil && root != "" && !isObjects(root) {
			root = absolute
		}
		return root, folder
	}
	s.Gate, s.Guard = s.hooks.Gate, s.hooks.Guard
	s.subscribe(s.hooks.Event)
	if s.metrics != nil {
		s.hooks.Tell = s.metrics.hook
		s.metrics.waiting(told, s.store)
	}
	return nil
}

// warnOfHooks logs which users of hooks do not exist.
func (s *service) warnOfHooks() {
	for _, hook := range s.started.hooks {
		for _, name := range hook.Users {
			if !s.mayKnow(name) { // misspelt, perhaps: then nobody would check the user's files
				s.Log.Warn("a hook is for a user who does not exist", "hook", hook.Name, "user", name)
			}
		}
	}
}

// mayKnow reports whether there is a user of a name, as far as this node can tell.
func (s *service) mayKnow(name string) bool {
	if s.started.notInFile(name) != nil || s.started.outsider(name) {
		return true
	}
	if s.store == nil {
		return false
	}
	_, there := s.store.User(name)
	return there || !s.store.KnowsUsers()
}

func hooksCommand(a *ui.App) *cobra.Command {
	return group("hooks", "manage what hooks could not be told", hooksLong, hooksExamples,
		storeCommand("list", "list the events that were not delivered", 0,
			func(ctx context.Context, s *store.Store, _ []string) error {
				return listLetters(ctx, a, s)
			}),
		storeCommand("replay HOOK|ID", "deliver those of a hook, or one, again", 1,
			func(ctx context.Context, s *store.Store, args []string) error {
				n, err := s.Replay(ctx, args[0])
				return sayLetters(a, args[0], n, "to be delivered again", err)
			}),
		storeCommand("drop HOOK|ID", "forget those of a hook, or one", 1,
			func(ctx context.Context, s *store.Store, args []string) error {
				n, err := s.Drop(ctx, args[0])
				return sayLetters(a, args[0], n, "dropped", err)
			}))
}

func sayLetters(a *ui.App, which string, n int64, what string, err error) error {
	if err != nil {
		return fmt.Errorf("%s: %w", which, err)
	}
	_, err = fmt.Fprintf(a.Out, "%d %s\n", n, what)
	return err
}

func listLetters(ctx context.Context, a *ui.App, s *store.Store) error {
	w := tabwriter.NewWriter(a.Out, 0, 0, 2, ' ', 0)
	if err := s.DeadLetters(ctx, func(m store.Message) {
		var e hooks.Event
		json.Unmarshal([]byte(m.Event), &e)
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%d tries\t%s\n", m.ID, m.Hook,
			e.Time.Local().Format(time.DateTime), e.Kind, ui.Printable(e.User),
			ui.Printable(e.Path), m.Tries, ui.Printable(m.Error))
	}); err != nil {
		return err
	}
	return w.Flush()
}
