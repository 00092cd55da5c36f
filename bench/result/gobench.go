package result

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// GoBenchmark has the values of one Go benchmark for each unit, in the order of the rounds.
type GoBenchmark struct {
	// Family is the name of the function without "Benchmark"; Keys are the parts "key=value" of the
	// rest.
	Family string
	Keys   map[string]string
	Values map[string][]float64
}

// GoFile is one file of Go benchmarks' output.
type GoFile struct {
	Name       string
	Session    Session
	Benchmarks []*GoBenchmark
}

// WriteConfig writes a session as lines that benchstat takes for the configuration of what follows.
func WriteConfig(w io.Writer, s Session) {
	for _, line := range configLines(&s) {
		fmt.Fprintf(w, "%s: %s\n", line.key, line.get())
	}
}

type configLine struct {
	key string
	get func() string
	set func(string)
}

func configLines(s *Session) []configLine {
	text := func(key string, field *string) configLine {
		return configLine{key, func() string { return *field },
			func(value string) { *field = value }}
	}
	return []configLine{
		text("commit", &s.Commit), text("date", &s.Date), text("processor",
			&s.Machine.CPU), text("kernel", &s.Machine.Kernel),
		text("go", &s.Machine.Go), text("openssh", &s.Machine.OpenSSH),
		{"cores", func() string { return strconv.Itoa(s.Machine.Cores) },
			func(value string) { s.Machine.Cores, _ = strconv.Atoi(value) }},
	}
}

// ReadGoBenchmarks parses the output of Go benchmarks after WriteConfig's lines.
func ReadGoBenchmarks(name string) (GoFile, error) {
	f := GoFile{Name: filepath.Base(name)}
	file, err := os.Open(name)
	if err != nil {
		return f, err
	}
	defer file.Close()
	byName := map[string]*GoBenchmark{}
	config := configLines(&f.Session)
	scanner := bufio.NewScanner(file)
	for scanner.Scan() {
		line := scanner.Text()
		if !strings.HasPrefix(line, "Benchmark") {
			if key, value, ok := strings.Cut(line, ": "); ok {
				for _, c := range config {
					if c.key == key {
						c.set(strings.TrimSpace(value))
					}
				}
			}
			continue
		}
		fields := strings.Fields(line)
		if len(fields) < 4 {
			continue // the name alone, where a benchmark printed something
		}
		b := byName[fields[0]]
		if b == nil {
			b = newGoBenchmark(fields[0])
			byName[fields[0]] = b
			f.Benchmarks = append(f.Benchmarks, b)
		}
		for i := 2; i+1 < len(fields); i += 2 {
			value, err := strconv.ParseFloat(fields[i], 64)
			if err != nil {
				return f, fmt.Errorf("%s: %q: %w", name, line, err)
			}
			b.Values[fields[i+1]] = append(b.Values[fields[i+1]], value)
		}
	}
	return f, scanner.Err()
}

func newGoBenchmark(name string) *GoBenchmark {
	// The last dash is followed by GOMAXPROCS, unless that is 1.
	if dash := strings.LastIndexByte(name, '-'); dash > 0 {
		if _, err := strconv.Atoi(name[dash+1:]); err == nil {
			name = name[:dash]
		}
	}
	parts := strings.Split(name, "/")
	b := &GoBenchmark{Family: strings.TrimPrefix(parts[0], "Benchmark"), Keys: map[string]string{},
		Values: map[string][]float64{}}
	for _, part := range parts[1:] {
		key, value, _ := strings.Cut(part, "=")
		b.Keys[key] = value
	}
	return b
}
