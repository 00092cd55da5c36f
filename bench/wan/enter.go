package wan

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// insideVariable is set in a program that Enter has started again.
const insideVariable = "USFTP_WAN_INSIDE"

// ErrNoNamespaces says that this machine does not let the program make namespaces.
var ErrNoNamespaces = errors.New("namespaces cannot be made here")

// Enter starts this program again, with the same arguments, where it may make links, and exits with
// its exit code: it returns only inside, or with an error. There the program is the first process
// of a PID namespace, so that whatever it started ends with it, even when it is killed; and it is
// killed when the one outside is, or after timeout. A root user stays root, with everything that
// needs (sshd's separation of privileges); anyone else keeps his own user id in a user namespace.
func Enter(timeout time.Duration) error {
	if os.Getenv(insideVariable) != "" {
		os.Unsetenv(insideVariable)
		return settle()
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	cmd := exec.Command(self, os.Args[1:]...)
	cmd.Env = append(os.Environ(), insideVariable+"=1")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: unix.CLONE_NEWNET | unix.CLONE_NEWPID | unix.CLONE_NEWNS,
		Pdeathsig:  syscall.SIGKILL,
	}
	if os.Geteuid() != 0 {
		asOrdinaryUser(cmd.SysProcAttr)
	}
	// Pdeathsig follows the thread that started the process, so this one must stay.
	runtime.LockOSThread()
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("%w: %w", ErrNoNamespaces, err)
	}
	ended := make(chan error)
	go func() { ended <- cmd.Wait() }()
	os.Exit(await(cmd, ended, signals, timeout))
	return nil
}

func asOrdinaryUser(attributes *syscall.SysProcAttr) {
	attributes.Cloneflags |= unix.CLONE_NEWUSER
	attributes.UidMappings = []syscall.SysProcIDMap{{ContainerID: os.Getuid(), HostID: os.Getuid(),
		Size: 1}}
	attributes.GidMappings = []syscall.SysProcIDMap{{ContainerID: os.Getgid(), HostID: os.Getgid(),
		Size: 1}}
	// A user id that is not 0 would lose its power over the namespace by running a program.
	attributes.AmbientCaps = []uintptr{unix.CAP_NET_ADMIN, unix.CAP_SYS_ADMIN}
}

// await waits for the program inside and returns its exit code. A signal is passed on, and ten
// seconds later everything is killed.
func await(cmd *exec.Cmd, ended <-chan error, signals <-chan os.Signal, timeout time.Duration) int {
	expired := time.After(timeout)
	var killed <-chan time.Time
	for {
		select {
		case s := <-signals:
			cmd.Process.Signal(s)
			killed = time.After(10 * time.Second)
		case <-expired:
			fmt.Fprintf(os.Stderr, "wan: stopped after %s\n", timeout)
			cmd.Process.Kill()
		case <-killed:
			cmd.Process.Kill()
		case err := <-ended:
			var exit *exec.ExitError
			if errors.As(err, &exit) {
				if code := exit.ExitCode(); code >= 0 {
					return code
				}
				return 1
			}
			if err != nil {
				fmt.Fprintln(os.Stderr, "wan:", err)
				return 1
			}
			return 0
		}
	}
}

// settle gives the new PID namespace its own /proc, without which process ids would not match, and
// the new network a loopback.
func settle() error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("%w: private mounts: %w", ErrNoNamespaces, err)
	}
	if err := unix.Mount("proc", "/proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC,
		""); err != nil {
		return fmt.Errorf("%w: mount /proc: %w", ErrNoNamespaces, err)
	}
	return bringUp("lo")
}
