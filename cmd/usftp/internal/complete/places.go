// Package complete completes command lines: hosts, paths on hosts, and the values of flags.
//
// It works in the background, so it asks nothing, accepts no host key, prints nothing, and gives up
// after a second. A live ControlMaster saves it the login.
package complete

import (
	"context"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/cmd/usftp/internal/connect"
	"github.com/usftp/usftp/cmd/usftp/internal/opt"
	"github.com/usftp/usftp/cmd/usftp/internal/pattern"
	"github.com/usftp/usftp/internal/scp"
	"github.com/usftp/usftp/internal/ui"
	"github.com/usftp/usftp/pool"
)

// limit returns how long a user who has pressed Tab waits: a second, unless
// USFTP_COMPLETION_TIMEOUT says otherwise.
func limit() time.Duration {
	if d, err := time.ParseDuration(os.Getenv("USFTP_COMPLETION_TIMEOUT")); err == nil && d > 0 {
		return d
	}
	return time.Second
}

// Places completes operands.
type Places struct {
	Connect     *opt.Connect // the connection flags on the command line
	Local       bool         // local files are operands too
	Directories bool         // only directories are operands
	Skip        int          // operands of another kind before the places
}

// Complete returns completions for a word.
func (p Places) Complete(word string) ([]string, cobra.ShellCompDirective) {
	return await(func(ctx context.Context) ([]string, cobra.ShellCompDirective) {
		return p.complete(ctx, word)
	})
}

// await returns completions, if they come soon.
func await(complete func(ctx context.Context) ([]string, cobra.ShellCompDirective)) ([]string,
	cobra.ShellCompDirective) {
	type answer struct {
		words     []string
		directive cobra.ShellCompDirective
	}
	ctx, cancel := context.WithTimeout(context.Background(), limit())
	defer cancel()
	a, err := ui.Await(ctx, func() (a answer, _ error) {
		a.words, a.directive = complete(ctx)
		return a, nil
	})
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return a.words, a.directive
}

func (p Places) complete(ctx context.Context, word string) ([]string, cobra.ShellCompDirective) {
	place, err := connect.ParsePlace(word)
	if rest, ok := strings.CutPrefix(word, scheme); ok && !strings.Contains(rest, "/") {
		return spaced(p.hosts(word))
	}
	if word != "" && err == nil && place.Remote {
		return spaced(p.remote(ctx, place))
	}
	if strings.ContainsAny(word, "/~") || strings.HasPrefix(word, ".") ||
		strings.HasPrefix(word, "-") {
		return p.localOnly()
	}
	words := p.hosts(word)
	if len(words) == 0 {
		return p.localOnly()
	}
	if p.Local {
		words = append(words, p.local(word)...)
	}
	return spaced(words)
}

// localOnly leaves the word to the shell's own completion, if local files are operands.
func (p Places) localOnly() ([]string, cobra.ShellCompDirective) {
	switch {
	case !p.Local:
		return nil, cobra.ShellCompDirectiveNoFileComp
	case p.Directories:
		return nil, cobra.ShellCompDirectiveFilterDirs
	}
	return nil, cobra.ShellCompDirectiveDefault
}

// spaced suppresses the space after words that continue.
func spaced(words []string) ([]string, cobra.ShellCompDirective) {
	directive := cobra.ShellCompDirectiveNoFileComp
	if slices.ContainsFunc(words, func(w string) bool {
		return strings.HasSuffix(w, "/") || strings.HasSuffix(w, ":")
	}) {
		directive |= cobra.ShellCompDirectiveNoSpace
	}
	return words, directive
}

// scheme begins operands that may have a port.
const scheme = "sftp://"

// hosts returns the hosts that a word may become, as "user@host:" or "sftp://user@host:2222/". A
// host known with a port is reached as "host:" only if that is the port in use.
func (p Places) hosts(word string) (words []string) {
	prefix, isURL := strings.CutPrefix(word, scheme)
	for _, name := range matchHosts(p.Connect.ConfigFile(), prefix) {
		switch host, port := cutPort(name); {
		case isURL:
			words = append(words, scheme+name+"/")
		case port == "" || port == p.Connect.Port():
			words = append(words, host+":")
		}
	}
	return slices.Compact(words)
}

// matchHosts returns the hosts that begin with a word, which may start with "user@".
func matchHosts(config, word string) (words []string) {
	at := strings.LastIndexByte(word, '@') + 1
	user, host := word[:at], word[at:]
	for _, name := range hosts(config) {
		if strings.HasPrefix(name, host) {
			words = append(words, user+name)
		}
	}
	return words
}

// local returns the files in the current directory that complete a word.
func (p Places) local(word string) (words []string) {
	entries, _ := os.ReadDir(".")
	for _, e := range entries {
		name := e.Name()
		if !strings.HasPrefix(name, word) || word == "" && strings.HasPrefix(name, ".") {
			continue
		}
		if strings.Contains(name, ":") { // it would be taken for a host's
			name = "." + string(filepath.Separator) + name
		}
		if info, err := os.Stat(e.Name()); err == nil && info.IsDir() {
			name += "/"
		} else if p.Directories {
			continue
		}
		if fit(name) {
			words = append(words, name)
		}
	}
	return words
}

// fit reports whether a name can be completed: the shells' scripts take one per line, with a
// description after a tab, and their display must not be forged.
func fit(name string) bool { return ui.Printable(name) == name }

// remote returns the paths on a host that complete a place.
func (p Places) remote(ctx context.Context, place connect.Place) (words []string) {
	// The typed text stays unchanged up to the last slash, or up to the colon.
	head := place.Typed[:strings.LastIndexByte(place.Typed, '/')+1]
	quote := escaped
	if strings.HasPrefix(place.Typed, scheme) {
		quote = func(name string) string { return url.PathEscape(escaped(name)) }
		if place.Target.Path == "" && !strings.HasSuffix(head, "~/") { // sftp://host/~
			head += "~/"
		}
	} else if head == "" {
		head = strings.TrimSuffix(strings.TrimSuffix(place.Typed, place.Target.Path), "~")
	}
	login, err := pool.Connect(ctx, place.Target, p.Connect.Unattended())
	if err != nil {
		return nil
	}
	defer login.Close()
	client := login.Host().Client.WithContext(ctx)
	dir, prefix := path.Split(place.Target.Path)
	at := strings.TrimRight(dir, "/")
	switch {
	case dir == "":
		at = "."
	case at == "":
		at = "/"
	}
	if strings.HasPrefix(at, "~") {
		user, below, _ := strings.Cut(at, "/")
		home, err := client.ExpandPath(user)
		if err != nil {
			return nil
		}
		at = path.Join(home, below)
	}
	prefix = scp.Unquote(prefix)
	for _, e := range List(client, scp.Unquote(at), func(name string) bool {
		return strings.HasPrefix(name, prefix) && fit(name) &&
			(prefix != "" || !strings.HasPrefix(name, "."))
	}) {
		word := head + quote(e.Name)
		if e.Dir {
			word += "/"
		} else if p.Directories {
			continue
		}
		words = append(words, word)
	}
	return words
}

// escaped quotes a name so that it is not a pattern.
func escaped(name string) string {
	if pattern.Has(name) {
		return usftp.QuotePattern(name)
	}
	return name
}

// Operands implements a command's cobra.CompletionFunc.
func (p Places) Operands(cmd *cobra.Command, args []string, word string) ([]string,
	cobra.ShellCompDirective) {
	if len(args) < p.Skip {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	if list, err := cmd.Flags().GetStringSlice("hosts"); err == nil && len(list) > 0 &&
		strings.HasPrefix(word, ":") {
		return await(func(ctx context.Context) ([]string, cobra.ShellCompDirective) {
			return spaced(p.onEach(ctx, list[0], word))
		})
	}
	return p.Complete(word)
}

// onEach returns the paths on the first host of a list that complete ":path".
func (p Places) onEach(ctx context.Context, first, word string) []string {
	host, port := cutPort(strings.TrimSpace(first))
	place, err := connect.ParsePlace(host + word)
	if err != nil || !place.Remote {
		return nil
	}
	place.Typed = word
	place.Target.Port, _ = strconv.Atoi(port) // 0 is the configured one
	return p.remote(ctx, place)
}
