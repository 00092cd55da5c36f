package testenv

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"testing"
	"time"
)

// Serve runs a server until the test ends, and returns once it listens on an address. If the test
// fails, it shows the server's output.
func Serve(tb testing.TB, cmd *exec.Cmd, network, address string) {
	tb.Helper()
	if err := TryServe(tb, cmd, network, address); err != nil {
		tb.Fatal(err)
	}
}

// TryServe works like Serve for a server that may be started again if it ends at once.
func TryServe(tb testing.TB, cmd *exec.Cmd, network, address string) error {
	tb.Helper()
	log, err := os.CreateTemp(tb.TempDir(), "log")
	if err != nil {
		tb.Fatal(err)
	}
	defer log.Close()
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		tb.Fatal(err)
	}
	ended := make(chan struct{})
	go func() { cmd.Wait(); close(ended) }()
	said := func() string {
		text, _ := os.ReadFile(log.Name())
		return string(text[max(0, len(text)-2000):])
	}
	tb.Cleanup(func() {
		cmd.Process.Signal(os.Interrupt)
		select {
		case <-ended:
		case <-time.After(5 * time.Second):
			cmd.Process.Kill()
			<-ended
		}
		if tb.Failed() {
			tb.Logf("%s says: %s", cmd.Path, said())
		}
	})
	deadline, look := time.After(5*time.Minute), time.NewTicker(20*time.Millisecond)
	defer look.Stop()
	for {
		conn, err := net.Dial(network, address)
		if err == nil {
			conn.Close()
			return nil
		}
		select {
		case <-look.C:
		case <-ended:
			return fmt.Errorf("%s did not start: %s", cmd.Path, said())
		case <-deadline:
			tb.Fatalf("%s has not started: %v", cmd.Path, err)
		}
	}
}
