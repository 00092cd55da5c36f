package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"time"

	"github.com/usftp/usftp/bench/measure"
	"github.com/usftp/usftp/bench/sshd"
	"github.com/usftp/usftp/bench/wan"
	"github.com/usftp/usftp/dial"
)

// usftpPort is where usftp serve listens at the far end of a long link.
const usftpPort = "2223"

// usftpServer is a usftp serve with the keys, the user and the paths of an sshd.
type usftpServer struct {
	access sshd.Access
	cmd    *exec.Cmd
}

// startUsftp starts usftp serve beside an sshd, at the far end of a link or, with none, on
// loopback.
func startUsftp(program string, beside *sshd.Server, far *wan.Side) (s *usftpServer, err error) {
	port, start := usftpPort, (*exec.Cmd).Start
	await := func() error { return awaitListener(net.JoinHostPort(beside.Address, port)) }
	if far != nil {
		start = far.Start
		await = func() error {
			number, err := strconv.Atoi(port)
			if err != nil {
				return err
			}
			return far.AwaitListener(number, besidePatience)
		}
	} else if port, err = sshd.FreePort(beside.Address); err != nil {
		return nil, err
	}
	s = &usftpServer{}
	if s.access, err = beside.Via(beside.Address, port); err != nil {
		return nil, err
	}
	s.cmd = exec.Command(program, "serve", "--listen", net.JoinHostPort(beside.Address, port),
		"--host-key", beside.HostKey, "--authorized-keys", beside.AuthorizedKeys,
		"--user", beside.User, "/")
	// The log says why it did not start. It is a file, since reading a pipe would take processor
	// time that the server needs.
	log, err := os.CreateTemp("", "usftp-serve-")
	if err != nil {
		return nil, err
	}
	defer log.Close()
	defer os.Remove(log.Name())
	s.cmd.Stderr = log
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := start(s.cmd); err != nil {
		return nil, err
	}
	if err := await(); err != nil {
		s.close()
		said, _ := os.ReadFile(log.Name())
		return nil, fmt.Errorf("usftp serve: %w\n%s", err, said)
	}
	return s, nil
}

func awaitListener(address string) error {
	for deadline := time.Now().Add(besidePatience); ; time.Sleep(20 * time.Millisecond) {
		conn, err := net.Dial("tcp", address)
		if err == nil {
			return conn.Close()
		}
		if time.Now().After(deadline) {
			return err
		}
	}
}

func (s *usftpServer) processor() (time.Duration, error) {
	return measure.SettledProcessor(s.cmd.Process.Pid, besidePatience)
}

func (s *usftpServer) close() {
	s.cmd.Process.Kill()
	s.cmd.Wait()
}

// loginMain logs in with package dial and ends as soon as the server has granted the subsystem,
// without the round trips of a clean end.
func loginMain() error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	dialer, err := dial.New(ctx, dial.Target{Host: "host"},
		&dial.Config{ConfigFile: os.Getenv("CONFIG")})
	if err != nil {
		return err
	}
	conn, err := dialer.Dial(ctx)
	if err != nil {
		return err
	}
	_, err = conn.Open(ctx)
	return err
}
