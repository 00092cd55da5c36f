package complete

import (
	"bufio"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Limits on reading.
const (
	mostFiles = 200
	mostRead  = 4 << 20
	mostHosts = 20_000
)

// A hostReader gathers the names of hosts from ssh_config and known_hosts files.
type hostReader struct {
	home  string // the base of ~ and of relative Includes in the user's files
	names map[string]bool
	known []string        // files of host keys
	read  map[string]bool // files, each read once: they may include one another
}

// hosts returns the hosts that ssh knows by name, sorted: from Host lines in config or, if that is
// empty, in the user's and the system's ssh_config, with the files they include, and from
// known_hosts files unless hashed. A host with a port there is returned as "host:2222".
func hosts(config string) []string {
	home, _ := os.UserHomeDir()
	r := &hostReader{home: home, names: make(map[string]bool), read: make(map[string]bool)}
	switch {
	case config == "":
		r.config(filepath.Join(home, ".ssh", "config"), filepath.Join(home, ".ssh"))
		r.config("/etc/ssh/ssh_config", "/etc/ssh")
	case !strings.EqualFold(config, "none"):
		r.config(config, filepath.Join(home, ".ssh"))
	}
	if home != "" {
		r.known = append(r.known, filepath.Join(home, ".ssh", "known_hosts"))
	}
	for _, file := range append(r.known, "/etc/ssh/ssh_known_hosts") {
		r.knownHosts(file)
	}
	return slices.Sorted(maps.Keys(r.names))
}

// lines yields the lines of a regular file.
func (r *hostReader) lines(file string, each func(line string)) {
	info, err := os.Stat(file)
	if err != nil || !info.Mode().IsRegular() || info.Size() > mostRead || r.read[file] ||
		len(r.read) == mostFiles {
		return
	}
	r.read[file] = true
	f, err := os.Open(file)
	if err != nil {
		return
	}
	defer f.Close()
	scanner := bufio.NewScanner(f)
	scanner.Buffer(nil, 1<<20)
	for scanner.Scan() {
		each(strings.TrimSpace(scanner.Text()))
	}
}

// config reads an ssh_config file. Relative Includes start in dir.
func (r *hostReader) config(file, dir string) {
	r.lines(file, func(line string) {
		word, rest, _ := strings.Cut(strings.Replace(line, "=", " ", 1), " ")
		values := words(rest)
		switch strings.ToLower(strings.TrimSpace(word)) {
		case "host":
			for _, name := range values {
				r.add(name)
			}
		case "include":
			for _, pattern := range values {
				pattern = r.expand(pattern)
				if !filepath.IsAbs(pattern) {
					pattern = filepath.Join(dir, pattern)
				}
				found, _ := filepath.Glob(pattern)
				for _, name := range found {
					r.config(name, dir)
				}
			}
		case "userknownhostsfile", "globalknownhostsfile":
			for _, name := range values {
				r.known = append(r.known, r.expand(name))
			}
		}
	})
}

func (r *hostReader) expand(name string) string {
	if rest, ok := strings.CutPrefix(name, "~/"); ok {
		return filepath.Join(r.home, rest)
	}
	return strings.ReplaceAll(name, "%d", r.home)
}

// words splits the arguments of a line, which may be quoted.
func words(text string) (list []string) {
	for {
		text = strings.TrimSpace(text)
		if text == "" || text[0] == '#' {
			return list
		}
		var word string
		if text[0] == '"' {
			word, text, _ = strings.Cut(text[1:], `"`)
		} else {
			end := strings.IndexAny(text+" ", " \t")
			word, text = text[:end], text[end:]
		}
		list = append(list, word)
	}
}

// knownHosts reads the names of a known_hosts file (sshd(8), SSH_KNOWN_HOSTS FILE FORMAT).
func (r *hostReader) knownHosts(file string) {
	r.lines(file, func(line string) {
		fields := strings.Fields(line)
		if len(fields) > 0 && strings.HasPrefix(fields[0], "@") {
			fields = fields[1:]
		}
		if len(fields) < 3 || strings.HasPrefix(fields[0], "#") ||
			strings.HasPrefix(fields[0], "|") {
			return
		}
		for name := range strings.SplitSeq(fields[0], ",") {
			host, port, err := net.SplitHostPort(name) // fails without a port
			if err != nil {
				host, port = name, ""
			}
			if strings.Contains(host, ":") {
				host = "[" + host + "]" // IPv6
			}
			if port != "" {
				host += ":" + port
			}
			r.add(host)
		}
	})
}

// add keeps a name that is not a pattern.
func (r *hostReader) add(name string) {
	if name != "" && !strings.ContainsAny(name, "*?!|\\ \t'\"$`/@") && len(r.names) < mostHosts {
		r.names[name] = true
	}
}

// cutPort cuts the port off a host's name; port is "" if there is none.
func cutPort(name string) (host, port string) {
	if i := strings.LastIndexByte(name, ':'); i >= 0 && !strings.HasSuffix(name, "]") {
		return name[:i], name[i+1:]
	}
	return name, ""
}
