// Package result is the form in which raw measurements are kept: lines of JSON, the first of which
// says where and when, and each other one is a run of one command.
package result

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Session is one run of a benchmark program.
type Session struct {
	// Commit of the repository, with "+" where its files were changed since.
	Commit string `json:"commit"`
	// Date is the minute in UTC at which the session began.
	Date string `json:"date"`
	// Machine describes the machine in words, without naming it.
	Machine Machine `json:"machine"`
}

// Machine has the properties of a machine on which the figures depend.
type Machine struct {
	CPU     string            `json:"cpu"`
	Cores   int               `json:"cores"`
	Kernel  string            `json:"kernel"`
	Go      string            `json:"go"`
	OpenSSH string            `json:"openssh"`
	Tools   map[string]string `json:"tools,omitempty"`
}

// Run is one run of one contestant.
type Run struct {
	Row        string `json:"row"`
	Contestant string `json:"contestant"`
	// Command is the shell's command, with the run's own files and address as variables.
	Command string `json:"command"`
	Round   int    `json:"round"`
	Bytes   int64  `json:"bytes"`
	// Seconds is the wall time of the whole command; User and System its processor time and that of
	// its children.
	Seconds float64 `json:"seconds"`
	User    float64 `json:"user"`
	System  float64 `json:"system"`
	// Busiest is the processor time of that one of the command's processes that took most, where
	// that was looked at.
	Busiest float64 `json:"busiest,omitempty"`
	// Server is the processor time at the server's side: sshd and its children.
	Server float64 `json:"server"`
	// ServerWhole says that Server has the time of processes that outlived their session, which
	// runs before this field lacked.
	ServerWhole bool `json:"server_whole,omitempty"`
	// PeakKiB is the peak memory of the command's processes together.
	PeakKiB int64 `json:"peak_kib"`
	// RoundTrips and Connections come from the rows that count on the wire.
	RoundTrips  int `json:"round_trips,omitempty"`
	Connections int `json:"connections,omitempty"`
	// Carried is how many bytes a long link carried in both directions, with the headers of IP and
	// TCP.
	Carried int64 `json:"carried,omitempty"`
	// Sessions is how many there were in the rows of sessions, where PeakKiB is what the server's
	// memory grew by at most, EndKiB by how much it was larger in the end, and Goroutines how many
	// more it had then, where it reports them.
	Sessions   int   `json:"sessions,omitempty"`
	EndKiB     int64 `json:"end_kib,omitempty"`
	Goroutines int   `json:"goroutines,omitempty"`
	// Failure says why the run does not count, or is empty.
	Failure string `json:"failure,omitempty"`
}

// NewSession describes this machine and the repository in which the program runs.
func NewSession() Session {
	s := Session{
		Commit: output("git", "rev-parse", "--short=12", "HEAD"),
		Date:   time.Now().UTC().Format("2006-01-02T15:04Z"),
		Machine: Machine{
			CPU:     cpuModel(),
			Cores:   runtime.NumCPU(),
			Kernel:  kernel(),
			Go:      strings.TrimPrefix(runtime.Version(), "go"),
			OpenSSH: firstWords(output("ssh", "-V"), 1),
			Tools:   map[string]string{},
		},
	}
	// Results themselves may be new: they change nothing that is measured.
	if output("git", "status", "--porcelain", "--untracked-files=no", "--", ":/") != "" {
		s.Commit += "+"
	}
	for tool, arguments := range map[string][]string{"rclone": {"version"}, "lftp": {"--version"},
		"iperf3": {"--version"}, "rsync": {"--version"},
		"sftpgo": {"--version"}, "haproxy": {"-v"}, "versitygw": {"--version"}} {
		if _, err := exec.LookPath(tool); err == nil {
			s.Machine.Tools[tool] = version(output(tool, arguments...))
		}
	}
	return s
}

// output returns the first line that a command prints, or nothing where it cannot run.
func output(name string, arguments ...string) string {
	text, err := exec.Command(name, arguments...).CombinedOutput()
	if err != nil {
		return ""
	}
	line, _, _ := strings.Cut(strings.TrimSpace(string(text)), "\n")
	return line
}

func firstWords(s string, n int) string {
	fields := strings.Fields(s)
	return strings.TrimRight(strings.Join(fields[:min(n, len(fields))], " "), ",")
}

// version is the first word of a line that begins like a version.
func version(line string) string {
	for _, word := range strings.Fields(line) {
		if digits := strings.TrimPrefix(word, "v"); digits != "" && digits[0] >= '0' &&
			digits[0] <= '9' {
			return digits
		}
	}
	return line
}

func cpuModel() string {
	text, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return runtime.GOARCH
	}
	for _, line := range strings.Split(string(text), "\n") {
		if name, value, ok := strings.Cut(line, ":"); ok &&
			strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return runtime.GOARCH
}

// kernel is the version without the suffix of a distributor or a builder.
func kernel() string {
	var name unix.Utsname
	if err := unix.Uname(&name); err != nil {
		return ""
	}
	release, _, _ := strings.Cut(unix.ByteSliceToString(name.Release[:]), "-")
	return unix.ByteSliceToString(name.Sysname[:]) + " " + release
}

// Writer appends runs to a file, each as soon as it is known.
type Writer struct{ file *os.File }

// NewFile starts a file in dir for a session, under a name of its date and commit. Such names sort
// by time.
func NewFile(dir string, session Session, extension string) (*os.File, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	base := strings.ReplaceAll(session.Date, ":", "") + "-" +
		strings.TrimSuffix(session.Commit, "+")
	for i := 1; ; i++ {
		name := base + extension
		if i > 1 {
			name = fmt.Sprintf("%s-%d%s", base, i, extension)
		}
		file, err := os.OpenFile(filepath.Join(dir, name), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
		if !os.IsExist(err) {
			return file, err
		}
	}
}

// Create starts a file of runs in dir.
func Create(dir string, session Session) (w *Writer, name string, err error) {
	file, err := NewFile(dir, session, ".jsonl")
	if err != nil {
		return nil, "", err
	}
	w = &Writer{file}
	return w, file.Name(), w.line(session)
}

// line keeps a command's > and & as they are: people read these files too.
func (w *Writer) line(value any) error {
	encoder := json.NewEncoder(w.file)
	encoder.SetEscapeHTML(false)
	return encoder.Encode(value)
}

// Add appends a run.
func (w *Writer) Add(run Run) error { return w.line(run) }

// Close closes the file.
func (w *Writer) Close() error { return w.file.Close() }

// File is one file of results.
type File struct {
	Name    string
	Session Session
	Runs    []Run
}

// Read parses one file.
func Read(name string) (File, error) {
	f := File{Name: filepath.Base(name)}
	file, err := os.Open(name)
	if err != nil {
		return f, err
	}
	defer file.Close()
	decoder := json.NewDecoder(bufio.NewReader(file))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&f.Session); err != nil {
		return f, fmt.Errorf("%s: session: %w", name, err)
	}
	for {
		var run Run
		err := decoder.Decode(&run)
		if err == io.EOF {
			return f, nil
		}
		if err != nil {
			return f, fmt.Errorf("%s: run %d: %w", name, len(f.Runs)+1, err)
		}
		f.Runs = append(f.Runs, run)
	}
}

// Median returns the middle of values, or the mean of the two middle ones; 0 of none.
func Median(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	middle := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[middle]
	}
	return (sorted[middle-1] + sorted[middle]) / 2
}
