package wan

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"sync"
	"testing"
	"time"

	"github.com/usftp/usftp/internal/testenv"
)

// playVariable makes the test binary play a program that uses links, for the tests of its end.
const playVariable = "USFTP_WAN_PLAY"

var quiet = flag.Bool("quiet", false,
	"nothing else runs on this machine, so that rates can be checked")

var enterErr error

func TestMain(m *testing.M) {
	if os.Getenv(playVariable) != "" {
		if err := play(os.Getenv(playVariable)); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	enterErr = Enter(5 * time.Minute)
	os.Exit(m.Run())
}

// play starts a process that would outlive everything and holds the standard output open, tells
// that it runs, and waits.
func play(timeout string) error {
	limit, err := time.ParseDuration(timeout)
	if err != nil {
		return err
	}
	if err := Enter(limit); err != nil {
		return err
	}
	link, err := New(Config{})
	if err != nil {
		return err
	}
	server := exec.Command("sh", "-c", "setsid sleep 1000 & echo ready; wait")
	server.Stdout = os.Stdout
	if err := link.Server.Start(server); err != nil {
		return err
	}
	return server.Wait()
}

func newLink(t *testing.T, config Config) *Link {
	t.Helper()
	if enterErr != nil {
		testenv.Unavailable(t, enterErr)
	}
	link, err := New(config)
	if errors.Is(err, os.ErrPermission) || errors.Is(err, os.ErrNotExist) {
		testenv.Unavailable(t, err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := link.Close(); err != nil {
			t.Error(err)
		}
	})
	return link
}

// listen opens a port on the server's side.
func listen(t *testing.T, link *Link) (listener net.Listener, address string) {
	t.Helper()
	err := link.Server.Do(func() (err error) {
		listener, err = net.Listen("tcp", net.JoinHostPort(ServerAddress.String(), "0"))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	return listener, listener.Addr().String()
}

func dial(t *testing.T, link *Link, address string) net.Conn {
	t.Helper()
	var conn net.Conn
	err := link.Client.Do(func() (err error) {
		conn, err = net.DialTimeout("tcp", address, 30*time.Second)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

func TestLinkTakesItsTime(t *testing.T) {
	const rtt = 100 * time.Millisecond
	link := newLink(t, Config{RTT: rtt})
	_, address := listen(t, link)
	quickest := time.Hour
	for range 10 { // of which a busy machine holds up some
		start := time.Now()
		dial(t, link, address) // one round trip: SYN, SYN-ACK
		quickest = min(quickest, time.Since(start))
	}
	if quickest < rtt || quickest > 2*rtt {
		t.Errorf("connecting took %s at least over a round trip of %s", quickest, rtt)
	}
}

func TestLinkKeepsContent(t *testing.T) {
	for _, config := range []Config{{}, {SinglePackets: true}, {Loss: 0.01}} {
		t.Run(fmt.Sprintf("%+v", config), func(t *testing.T) {
			link := newLink(t, config)
			listener, address := listen(t, link)
			want := bytes.Repeat([]byte("long fat link "), 1<<15)
			go func() {
				conn, err := listener.Accept()
				if err != nil {
					return
				}
				defer conn.Close()
				conn.Write(want)
			}()
			conn := dial(t, link, address)
			conn.SetDeadline(time.Now().Add(2 * time.Minute))
			got, err := io.ReadAll(conn)
			if err != nil || !bytes.Equal(got, want) {
				t.Errorf("%d of %d bytes arrived (%v)", len(got), len(want), err)
			}
			if carried := link.Carried(); carried < int64(len(want)) {
				t.Errorf("%d bytes were carried, want %d at least", carried, len(want))
			}
		})
	}
}

func TestSeveralLinksAtATime(t *testing.T) {
	links := []*Link{newLink(t, Config{RTT: 10 * time.Millisecond}),
		newLink(t, Config{RTT: 60 * time.Millisecond})}
	var wait sync.WaitGroup
	for i, link := range links {
		listener, address := listen(t, link)
		wait.Go(func() {
			conn, err := listener.Accept()
			if err != nil {
				t.Error(err)
				return
			}
			defer conn.Close()
			fmt.Fprint(conn, i)
		})
		got, err := io.ReadAll(dial(t, link, address))
		if err != nil || string(got) != fmt.Sprint(i) {
			t.Errorf("link %d brought %q (%v)", i, got, err)
		}
	}
	wait.Wait()
}

func TestAwaitListener(t *testing.T) {
	link := newLink(t, Config{})
	listener, _ := listen(t, link)
	port := listener.Addr().(*net.TCPAddr).Port
	if err := link.Server.AwaitListener(port, 10*time.Second); err != nil {
		t.Error(err)
	}
	if err := link.Client.AwaitListener(port, 0); !errors.Is(err, ErrNotListening) {
		t.Errorf("the other side: %v, want ErrNotListening", err)
	}
}

// TestEndsWithItsProgram ends a program that uses a link in several ways. Every process it started
// holds the writing end of its output, so the output's end shows that none is left.
func TestEndsWithItsProgram(t *testing.T) {
	newLink(t, Config{}) // skips where links cannot be made
	for _, test := range []struct {
		name    string
		timeout string
		end     func(*os.Process) error
	}{
		{"killed", "1m", (*os.Process).Kill},
		{"interrupted", "1m", func(p *os.Process) error { return p.Signal(os.Interrupt) }},
		{"out of time", "5s", func(*os.Process) error { return nil }}, // to be ready in
	} {
		t.Run(test.name, func(t *testing.T) {
			self, err := os.Executable()
			if err != nil {
				t.Fatal(err)
			}
			cmd := exec.Command(self)
			cmd.Env = append(os.Environ(), playVariable+"="+test.timeout)
			output, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			output.(*os.File).SetReadDeadline(time.Now().Add(50 * time.Second)) // less than a minute
			lines := bufio.NewReader(output)
			if line, err := lines.ReadString('\n'); err != nil || line != "ready\n" {
				t.Fatalf("the program said %q (%v)", line, err)
			}
			if err := test.end(cmd.Process); err != nil {
				t.Fatal(err)
			}
			if _, err := lines.ReadByte(); err != io.EOF {
				t.Errorf("something still runs: %v", err)
			}
			if err := cmd.Wait(); err == nil {
				t.Error("the program ended as if nothing had happened")
			}
		})
	}
}

// TestLinkCarriesItsRate checks with iperf3 that 1 Gbit/s and 100 ms are what TCP finds. Four
// streams, because one is bound by the kernel's buffers.
func TestLinkCarriesItsRate(t *testing.T) {
	if !*quiet {
		t.Skip("measures only on a quiet machine: ask with -quiet")
	}
	iperf, err := exec.LookPath("iperf3")
	if err != nil {
		testenv.Unavailable(t, err)
	}
	const rate, enough, attempts = 1e9, 0.85, 3
	best := 0.0
	for range attempts {
		link := newLink(t, Config{RTT: 100 * time.Millisecond, Rate: rate})
		best = max(best, iperfRate(t, link, iperf))
		if best > rate {
			t.Fatalf("%.0f Mbit/s over a link of %.0f", best/1e6, rate/1e6)
		}
		if best >= enough*rate {
			t.Logf("%.0f Mbit/s", best/1e6)
			return
		}
	}
	t.Errorf("at most %.0f Mbit/s over a link of %.0f (is the machine busy?)", best/1e6, rate/1e6)
}

func iperfRate(t *testing.T, link *Link, iperf string) float64 {
	t.Helper()
	const port = 5201
	server := exec.Command(iperf, "-s", "-1")
	if err := link.Server.Start(server); err != nil {
		t.Fatal(err)
	}
	if err := link.Server.AwaitListener(port, 20*time.Second); err != nil {
		t.Fatal(err)
	}
	client := exec.Command(iperf, "-c", ServerAddress.String(), "-P", "4", "-O", "2", "-t", "4",
		"-J")
	var output bytes.Buffer
	client.Stdout = &output
	if err := link.Client.Start(client); err != nil {
		t.Fatal(err)
	}
	if err := client.Wait(); err != nil {
		t.Fatalf("iperf3: %v: %s", err, output.String())
	}
	if err := server.Wait(); err != nil {
		t.Errorf("iperf3 -s: %v", err)
	}
	var report struct {
		End struct {
			Received struct {
				BitsPerSecond float64 `json:"bits_per_second"`
			} `json:"sum_received"`
		}
	}
	if err := json.Unmarshal(output.Bytes(), &report); err != nil {
		t.Fatal(err)
	}
	return report.End.Received.BitsPerSecond
}
