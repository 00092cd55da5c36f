//go:build linux || darwin

package mount

import (
	"bufio"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/usftp/usftp/cmd/usftp/internal/opt"
	"github.com/usftp/usftp/internal/ui"
)

// readyVariable tells the program that it is the background process, and gives the descriptor on
// which to report that it has mounted.
const readyVariable = "USFTP_MOUNT_READY"

// A daemon is the background process. It logs in on the terminal, where programs can ask for
// passwords, and leaves the terminal once all is well.
type daemon struct {
	told *os.File // where to report readiness
	log  *os.File
}

// daemonOf returns the daemon if this process is one, otherwise nil.
func daemonOf() *daemon {
	fd, err := strconv.Atoi(os.Getenv(readyVariable))
	if err != nil {
		return nil
	}
	os.Unsetenv(readyVariable)
	syscall.CloseOnExec(fd)
	return &daemon{told: os.NewFile(uintptr(fd), "ready")}
}

// background starts this program again, and returns once that has mounted or failed.
func background(a *ui.App) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	ready, told, err := os.Pipe()
	if err != nil {
		return err
	}
	defer ready.Close()
	cmd := exec.Command(self, a.Args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.ExtraFiles = []*os.File{told}
	cmd.Env = append(os.Environ(), readyVariable+"=3")
	err = cmd.Start()
	told.Close()
	if err != nil {
		return err
	}
	if line, _ := bufio.NewReader(ready).ReadString('\n'); line == readyLine {
		return cmd.Process.Release()
	}
	var failed *exec.ExitError
	if err = cmd.Wait(); errors.As(err, &failed) && failed.Exited() {
		return &ui.ExitError{Code: failed.ExitCode()} // it has reported the failure
	} else if err == nil {
		err = errors.New("exited before it was ready")
	}
	return fmt.Errorf("the background process: %w", err)
}

const readyLine = "mounted\n"

// logger opens the log of the background. A user may have no home for the usual one.
func (d *daemon) logger(a *ui.App, flags *flags) (*slog.Logger, error) {
	name, usual := flags.log, flags.log == ""
	if usual {
		name = opt.StatePath("mount.log")
		os.MkdirAll(filepath.Dir(name), 0o700) // if that fails, so does opening the log
	}
	file, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil && usual {
		a.Console.Say(fmt.Sprintf("there is no log: %v", err))
		return slog.New(slog.DiscardHandler), nil
	} else if err != nil {
		return nil, err
	}
	d.log = file
	options := &slog.HandlerOptions{Level: flags.report.Level()}
	return slog.New(slog.NewTextHandler(file, options)), nil
}

// ready leaves the terminal and notifies the waiting process.
func (d *daemon) ready() error {
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer null.Close()
	_, err = syscall.Setsid()
	if errors.Is(err, syscall.EPERM) {
		err = nil // it is already a group leader
	}
	errs := []error{err, os.Chdir("/")}
	out := null
	if d.log != nil {
		out = d.log // for the runtime's messages if it crashes
	}
	for fd, file := range []*os.File{null, null, out} {
		errs = append(errs, unix.Dup2(int(file.Fd()), fd))
	}
	_, err = d.told.WriteString(readyLine)
	return errors.Join(append(errs, err, d.told.Close())...)
}
