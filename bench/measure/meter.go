package measure

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Figures are the costs of one run of a command.
type Figures struct {
	// Seconds is from the start of the command to its end.
	Seconds float64 `json:"seconds"`
	// User and System are the processor seconds of the command and of every process below it.
	User   float64 `json:"user"`
	System float64 `json:"system"`
	// PeakKiB is the largest sum, over the processes alive at one moment, of each one's peak
	// resident memory so far. The shell that runs the command is left out: it is how the command is
	// written down, whichever tool is measured.
	PeakKiB int64 `json:"peak_kib"`
	// Busiest is the processor time of the one process that took most, as seen when last looked: a
	// program that keeps a core busy shows there, whatever others of the command wait.
	Busiest float64 `json:"busiest"`
	// Failure describes the failure, or is empty.
	Failure string `json:"failure,omitempty"`
}

// Meter runs a command of the shell in this process, which must have no other children: it becomes
// the parent of whatever the command leaves behind, so that nothing escapes the account.
func Meter(command string, sample, timeout time.Duration) (Figures, error) {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return Figures{}, err
	}
	cmd := exec.Command("sh", "-c", command)
	cmd.Stderr = os.Stderr
	shell, err := os.Stat(cmd.Path)
	if err != nil {
		return Figures{}, err
	}
	start := time.Now()
	if err := cmd.Start(); err != nil {
		return Figures{}, err
	}
	expired := time.AfterFunc(timeout, killTree)
	stop, seen := make(chan struct{}), make(chan samples)
	go func() { seen <- look(sample, cmd.Process.Pid, shell, stop) }()

	err = cmd.Wait()
	figures := Figures{Seconds: time.Since(start).Seconds()}
	if err != nil {
		figures.Failure = err.Error()
	}
	left := time.AfterFunc(20*time.Second, killTree)
	reapRest()
	left.Stop()
	if !expired.Stop() {
		figures.Failure = fmt.Sprintf("stopped after %s", timeout)
	}
	close(stop)
	last := <-seen
	figures.PeakKiB, figures.Busiest = last.peakKiB, last.busiest.Seconds()

	var usage unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_CHILDREN, &usage); err != nil {
		return figures, err
	}
	figures.User = seconds(usage.Utime)
	figures.System = seconds(usage.Stime)
	return figures, nil
}

// reapRest waits for the processes that the command left running, whose time counts too.
func reapRest() {
	for {
		_, err := unix.Wait4(-1, nil, 0, nil)
		if err != nil && !errors.Is(err, unix.EINTR) {
			return // ECHILD: none is left
		}
	}
}

func killTree() {
	for _, pid := range descendants(os.Getpid()) {
		unix.Kill(pid, unix.SIGKILL)
	}
}

// samples are taken from the processes while they run.
type samples struct {
	peakKiB int64
	busiest time.Duration
}

// look counts the process first too once it has become another program than the shell, as some
// shells do for the last command of a line.
func look(every time.Duration, first int, shell os.FileInfo, stop <-chan struct{}) (s samples) {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		select {
		case <-stop:
			return s
		case <-ticker.C:
			var sum int64
			for _, pid := range descendants(os.Getpid()) {
				if pid != first || !runs(pid, shell) {
					sum += highWater(pid)
				}
				if own, _, err := processor(pid); err == nil {
					s.busiest = max(s.busiest, own)
				}
			}
			s.peakKiB = max(s.peakKiB, sum)
		}
	}
}

// runs reports whether a process runs a program.
func runs(pid int, program os.FileInfo) bool {
	now, err := os.Stat(fmt.Sprintf("/proc/%d/exe", pid))
	return err == nil && os.SameFile(now, program)
}

func seconds(t unix.Timeval) float64 { return float64(t.Sec) + float64(t.Usec)/1e6 }

// MeterArgument is the first argument with which this program is started again as the meter of one
// command.
const MeterArgument = "meter"

// MeterMain is the program behind MeterArgument; its arguments are the command, the sampling
// interval, the timeout and the file that takes the figures.
func MeterMain(arguments []string) error {
	if len(arguments) != 4 {
		return errors.New("meter: command, interval, timeout and output file were expected")
	}
	sample, err := time.ParseDuration(arguments[1])
	if err != nil {
		return err
	}
	timeout, err := time.ParseDuration(arguments[2])
	if err != nil {
		return err
	}
	stopped := make(chan os.Signal, 1)
	signal.Notify(stopped, os.Interrupt, syscall.SIGTERM)
	go func() {
		<-stopped
		killTree()
		os.Exit(1)
	}()
	figures, err := Meter(arguments[0], sample, timeout)
	if err != nil {
		return err
	}
	text, err := json.Marshal(figures)
	if err != nil {
		return err
	}
	return os.WriteFile(arguments[3], text, 0o600)
}

// Runner runs commands, each under a meter of its own.
type Runner struct {
	// Environment has the variables of the commands beside this process's own.
	Environment []string
	// Sample is the interval between two looks at the memory.
	Sample time.Duration
	// Timeout ends a command that takes longer.
	Timeout time.Duration
	// Start starts the meter; nil is (*exec.Cmd).Start.
	Start func(*exec.Cmd) error
}

// Run runs one command. A failure of the command is in the figures; the error is that of the
// measurement.
func (r Runner) Run(command string) (Figures, error) {
	self, err := os.Executable()
	if err != nil {
		return Figures{}, err
	}
	output, err := os.CreateTemp("", "usftp-figures-")
	if err != nil {
		return Figures{}, err
	}
	defer os.Remove(output.Name())
	output.Close()
	cmd := exec.Command(self, MeterArgument, command, r.Sample.String(), r.Timeout.String(),
		output.Name())
	cmd.Env = append(os.Environ(), r.Environment...)
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
	start := (*exec.Cmd).Start
	if r.Start != nil {
		start = r.Start
	}
	if err := start(cmd); err != nil {
		return Figures{}, err
	}
	if err := cmd.Wait(); err != nil {
		return Figures{}, fmt.Errorf("meter: %w", err)
	}
	text, err := os.ReadFile(output.Name())
	if err != nil {
		return Figures{}, err
	}
	var figures Figures
	return figures, json.Unmarshal(text, &figures)
}
