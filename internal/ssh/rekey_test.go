package ssh_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/usftp/usftp/internal/soak"
	"github.com/usftp/usftp/internal/ssh"
)

// TestRekeyingAtFullRate sends much both ways at once, with new keys after each MiB, started by
// either side, by both, and manually.
func TestRekeyingAtFullRate(t *testing.T) {
	size := soak.Pick(16, 64) << 20
	for _, c := range []struct {
		name           string
		client, server int64
		cipher         string
		by             string
	}{
		{"client", 1 << 20, 0, "aes128-gcm@openssh.com", ""},
		{"server", 0, 1 << 20, "aes128-gcm@openssh.com", ""},
		{"both", 1 << 20, 1 << 20, "aes128-gcm@openssh.com", ""},
		{"both, CTR", 1 << 20, 1 << 20, "aes256-ctr", ""},
		{"by hand", 0, 0, "aes128-gcm@openssh.com", "hand"},
	} {
		t.Run(c.name, func(t *testing.T) {
			user := signer(t, "ed25519")
			cc, sc := clientConfig(user), serverConfig(t, user.PublicKey())
			cc.Algorithms.Ciphers = []string{c.cipher}
			cc.RekeyBytes, sc.RekeyBytes = c.client, c.server
			client, server := connect(t, cc, sc)
			go echo(server)
			ch := session(t, client, "echo")
			block := pattern(1 << 20)
			var both sync.WaitGroup
			both.Go(func() {
				for range size / len(block) {
					if _, err := ch.Write(block); err != nil {
						t.Error(err)
						return
					}
					if c.by == "hand" {
						client.Rekey()
						server.Rekey()
					}
				}
				ch.CloseWrite()
			})
			got := make([]byte, len(block))
			for i := range size / len(block) {
				if _, err := io.ReadFull(ch, got); err != nil {
					t.Fatalf("block %d: %v", i, err)
				}
				if !bytes.Equal(got, block) {
					t.Fatalf("block %d came back differently", i)
				}
			}
			both.Wait()
			if n := client.Exchanges(); n < size>>21-2 {
				t.Errorf("keys were exchanged %d times", n)
			}
		})
	}
}

// TestExchangeThatDoesNotEnd: writers block during the exchange, and it times out.
func TestExchangeThatDoesNotEnd(t *testing.T) {
	user := signer(t, "ed25519")
	synctest.Test(t, func(t *testing.T) {
		cc, sc := clientConfig(user), serverConfig(t, user.PublicKey())
		cut := false
		swallow := func(p []byte) []byte {
			if cut {
				return nil
			}
			return p
		}
		// What the client sends is lost, so that only its own exchange is under way: two that began
		// at once would time out at once, and whichever end was second would see an EOF.
		client, server, err, serverErr := shake(cc, sc, swallow, same)
		if err != nil || serverErr != nil {
			t.Fatal(err, serverErr)
		}
		go echo(server)
		ch := session(t, client, "sink")
		cut = true
		must(t, client.Rekey())
		began := time.Now()
		wrote := make(chan error)
		go func() {
			_, err := ch.Write(make([]byte, 64<<20))
			wrote <- err
		}()
		if err := <-wrote; !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("Write: %v", err)
		}
		if _, err := ch.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("Read: %v", err)
		}
		if took := time.Since(began); took > 3*time.Minute {
			t.Errorf("it took %v", took)
		}
		end(client, server)
	})
}

// TestAnswersAreBounded: a peer that keeps asking during an exchange that it does not finish, or
// reads nothing, is disconnected, and costs little until then.
func TestAnswersAreBounded(t *testing.T) {
	user := signer(t, "ed25519")
	synctest.Test(t, func(t *testing.T) {
		cc, sc := clientConfig(user), serverConfig(t, user.PublicKey())
		client, server, err, serverErr := shake(cc, sc, same, func(p []byte) []byte { return p })
		if err != nil || serverErr != nil {
			t.Fatal(err, serverErr)
		}
		defer end(client, server)
		// The server has started an exchange, and the client keeps asking: its own KEXINIT comes
		// after all of that.
		server.Rekey()
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		var all sync.WaitGroup
		for range 100 {
			all.Go(func() {
				for range 100 {
					client.SendRequest(ctx, "keepalive@openssh.com", true, nil)
				}
			})
		}
		all.Wait()
		if client.Err() != nil {
			t.Errorf("an honest client was given up: %v", client.Err())
		}
	})
}

// TestWrites: writes share packets, and one system call writes 256 KiB.
func TestWrites(t *testing.T) {
	user := signer(t, "ed25519")
	cc, sc := clientConfig(user), serverConfig(t, user.PublicKey())
	counted := &counter{}
	client, server, err, serverErr := tryConnect(cc, sc, func(c net.Conn) net.Conn {
		counted.Conn = c
		return counted
	})
	if err != nil || serverErr != nil {
		t.Fatal(err, serverErr)
	}
	defer end(client, server)
	go echo(server)
	ch := session(t, client, "sink")
	writes, bytes := counted.counts()
	if _, err := ch.WriteBuffers([][]byte{make([]byte, 30), make([]byte, 255<<10)}); err != nil {
		t.Fatal(err)
	}
	w, bytes := counted.await(t, bytes+255<<10)
	if w-writes != 1 {
		t.Errorf("a WRITE of 255 KiB took %d system calls", w-writes)
	}
	var parts [][]byte
	for range 1000 {
		parts = append(parts, make([]byte, 100))
	}
	ch.WriteBuffers(parts)
	if _, b := counted.await(t, bytes+100_000); b-bytes > 100_000+4*100 {
		t.Errorf("1000 small parts took %d bytes", b-bytes)
	}
}

type counter struct {
	net.Conn
	mu            sync.Mutex
	writes, bytes int
	written       chan struct{} // closed by the next Write, if somebody waits for that
}

func (c *counter) counts() (writes, bytes int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.writes, c.bytes
}

// await waits until so many bytes are written in all.
func (c *counter) await(t *testing.T, least int) (writes, bytes int) {
	t.Helper()
	for {
		c.mu.Lock()
		if c.written == nil {
			c.written = make(chan struct{})
		}
		writes, bytes, written := c.writes, c.bytes, c.written
		c.mu.Unlock()
		if bytes >= least {
			return writes, bytes
		}
		select {
		case <-written:
		case <-time.After(time.Minute):
			t.Fatalf("%d of %d bytes are written after a minute", bytes, least)
		}
	}
}

func (c *counter) Write(p []byte) (int, error) {
	c.mu.Lock()
	c.writes++
	c.bytes += len(p)
	if c.written != nil {
		close(c.written)
		c.written = nil
	}
	c.mu.Unlock()
	return c.Conn.Write(p)
}

// TestRekeyingByTime: keys are exchanged again some time after the last exchange, whatever started
// it, and also while nothing is sent.
func TestRekeyingByTime(t *testing.T) {
	user := signer(t, "ed25519")
	synctest.Test(t, func(t *testing.T) {
		cc, sc := clientConfig(user), serverConfig(t, user.PublicKey())
		cc.RekeyAfter = time.Hour
		client, server := overLongLink(t, cc, sc)
		go echo(server)
		after := func(d time.Duration, want int) {
			t.Helper()
			time.Sleep(d)
			synctest.Wait()
			if got := client.Exchanges(); got != want || server.Exchanges() != want {
				t.Errorf("%d and %d exchanges, want %d", got, server.Exchanges(), want)
			}
		}
		after(59*time.Minute, 1)
		after(2*time.Minute, 2)
		after(30*time.Minute, 2)
		client.Rekey()
		after(59*time.Minute, 3)
		after(2*time.Minute, 4)
		ch := session(t, client, "echo")
		if _, err := ch.Write([]byte("x")); err != nil {
			t.Error(err)
		}
		if _, err := io.ReadFull(ch, make([]byte, 1)); err != nil {
			t.Error(err)
		}
		client.Close()
		server.Close()
		after(3*time.Hour, 4)
	})
}

// TestDataInTheMiddleOfAnExchange: data that arrives between a peer's KEXINIT and NEWKEYS, as some
// send it, is delivered in order.
func TestDataInTheMiddleOfAnExchange(t *testing.T) {
	user := signer(t, "ed25519")
	for _, c := range []struct {
		name  string
		early func(client, server *ssh.Conn) *ssh.Conn
	}{
		{"of the client", func(client, _ *ssh.Conn) *ssh.Conn { return client }},
		{"of the server", func(_, server *ssh.Conn) *ssh.Conn { return server }},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cc, sc := clientConfig(user), serverConfig(t, user.PublicKey())
				client, server := overLongLink(t, cc, sc)
				ch := session(t, client, "echo")
				data := pattern(1 << 20)
				send := func(part []byte) {
					if _, err := ch.Write(part); err != nil {
						t.Error(err)
					}
				}
				before := [...]int{client.Exchanges(), server.Exchanges()}
				go func() {
					// The exchange takes a round trip of 100 ms. The server starts its own when the
					// first data arrives, and echoes it at the same time.
					if c.early(client, server) == client {
						must(t, ssh.RekeyAndGoOn(client))
						send(data)
						return
					}
					send(data[:len(data)/2])
					time.Sleep(50 * time.Millisecond)
					must(t, ssh.RekeyAndGoOn(server))
					send(data[len(data)/2:])
				}()
				got := make([]byte, len(data))
				if _, err := io.ReadFull(ch, got); err != nil {
					t.Fatal(err)
				}
				if !bytes.Equal(got, data) {
					t.Error("the data came back differently")
				}
				time.Sleep(time.Second)
				if client.Exchanges() != before[0]+1 || server.Exchanges() != before[1]+1 {
					t.Errorf("keys were exchanged %d and %d times", client.Exchanges(),
						server.Exchanges())
				}
				end(client, server)
			})
		})
	}
}

// TestRekeyingAtBadMoments: a key exchange takes a few round trips of 100 ms, whatever else is
// under way, which also completes.
func TestRekeyingAtBadMoments(t *testing.T) {
	user := signer(t, "ed25519")
	const soon = 2 * time.Second
	both := func(client, server *ssh.Conn) {
		client.Rekey()
		server.Rekey()
	}
	for _, c := range []struct {
		name  string
		bytes int64 // after which keys are exchanged automatically
		run   func(t *testing.T, client, server *ssh.Conn)
	}{
		{"by both sides at once", 0, func(t *testing.T, client, server *ssh.Conn) {
			before := client.Exchanges()
			both(client, server)
			time.Sleep(soon)
			if n, m := client.Exchanges(), server.Exchanges(); n != before+1 || m != before+1 {
				t.Errorf("keys were exchanged %d and %d times, and %d before", n, m, before)
			}
		}},
		{"while a window is used up", 0, func(t *testing.T, client, server *ssh.Conn) {
			ch := session(t, client, "source")
			time.Sleep(soon) // the window is full, and nobody reads
			before := client.Exchanges()
			both(client, server)
			time.Sleep(soon)
			if n := client.Exchanges(); n != before+1 {
				t.Errorf("keys were exchanged %d times, and %d before", n, before)
			}
			if n, err := io.Copy(io.Discard, ch); n != 64<<20 || err != nil {
				t.Errorf("%d bytes came, %v", n, err)
			}
		}},
		{"while somebody reads slowly", 256 << 10, func(t *testing.T, client, server *ssh.Conn) {
			ch := session(t, client, "source")
			for range 8 {
				if _, err := io.ReadFull(ch, make([]byte, 1<<20)); err != nil {
					t.Fatal(err)
				}
				ctx, cancel := context.WithTimeout(t.Context(), soon)
				if _, _, err := client.SendRequest(ctx, "keepalive", true, nil); err != nil {
					t.Errorf("a keepalive: %v", err)
				}
				cancel()
				time.Sleep(time.Second)
			}
			if n := client.Exchanges(); n < 8 {
				t.Errorf("keys were exchanged %d times", n)
			}
			ch.Close()
			select {
			case <-ch.Done():
			case <-time.After(soon):
				t.Error("the channel does not end")
			}
		}},
		{"while channels close", 0, func(t *testing.T, client, server *ssh.Conn) {
			for _, begin := range []func(){func() { client.Rekey() }, func() { server.Rekey() },
				func() { both(client, server) }} {
				// We close one, and the server closes the other when it sees the end of the data.
				ours, theirs := session(t, client, "echo"), session(t, client, "echo")
				begin()
				ours.Close()
				theirs.CloseWrite()
				for _, ch := range []*ssh.Channel{ours, theirs} {
					select {
					case <-ch.Done():
					case <-time.After(soon):
						t.Error("a channel does not end")
					}
				}
				if e := theirs.ExitStatus(); e.Status != 7 {
					t.Errorf("the exit status is %+v", e)
				}
			}
			session(t, client, "echo")
		}},
		{"while the connection closes", 0, func(t *testing.T, client, server *ssh.Conn) {
			ch := session(t, client, "sink")
			wrote := make(chan error, 1)
			go func() {
				_, err := ch.Write(make([]byte, 64<<20))
				wrote <- err
			}()
			time.Sleep(50 * time.Millisecond)
			both(client, server)
			began := time.Now()
			client.Close()
			if err := <-wrote; !errors.Is(err, ssh.ErrClosed) {
				t.Errorf("Write ended with %v", err)
			}
			<-server.Done()
			if took := time.Since(began); took > soon {
				t.Errorf("it took %v", took)
			}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cc, sc := clientConfig(user), serverConfig(t, user.PublicKey())
				cc.RekeyBytes, sc.RekeyBytes = c.bytes, c.bytes
				client, server := overLongLink(t, cc, sc)
				defer func() { end(client, server) }()
				c.run(t, client, server)
			})
		})
	}
}

// TestRekeyingAfterAFewBytes: OpenSSH's RekeyLimit may be 16 bytes. Keys are not exchanged before
// the login is complete, and then all the time, but data gets through.
func TestRekeyingAfterAFewBytes(t *testing.T) {
	user := signer(t, "ed25519")
	for _, c := range []struct {
		name           string
		client, server int64
	}{{"by the client", 16, 0}, {"by the server", 0, 16}, {"by both", 16, 16}} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cc, sc := clientConfig(user), serverConfig(t, user.PublicKey())
				cc.RekeyBytes, sc.RekeyBytes = c.client, c.server
				client, server := overLongLink(t, cc, sc)
				defer func() { end(client, server) }()
				if n := client.Exchanges(); n != 1 {
					t.Errorf("keys were exchanged %d times before the login", n)
				}
				roundTrip(t, client, pattern(100_000))
			})
		})
	}
}

// TestRekeyingAfterPackets: the side that counts sends the packets, or receives them.
func TestRekeyingAfterPackets(t *testing.T) {
	const limit = 200
	user := signer(t, "ed25519")
	for _, c := range []struct{ subsystem, cipher string }{
		{"sink", "chacha20-poly1305@openssh.com"}, {"source", "chacha20-poly1305@openssh.com"},
		{"sink", "aes128-gcm@openssh.com"}, {"source", "aes128-gcm@openssh.com"},
	} {
		t.Run(c.subsystem+" "+c.cipher, func(t *testing.T) {
			cc, sc := clientConfig(user), serverConfig(t, user.PublicKey())
			cc.Algorithms.Ciphers = []string{c.cipher}
			cc.Flight = func(conn *ssh.Conn) *ssh.Flight {
				ssh.LimitPackets(conn, limit)
				return nil
			}
			client, server := connect(t, cc, sc)
			go echo(server)
			ch := session(t, client, c.subsystem)
			const packets = 2048 // of 32 KiB
			if c.subsystem == "sink" {
				if _, err := ch.Write(make([]byte, packets*32<<10)); err != nil {
					t.Fatal(err)
				}
				ch.CloseWrite()
			}
			if _, err := io.Copy(io.Discard, ch); err != nil {
				t.Fatal(err)
			}
			<-ch.Done()
			// The peer goes on sending until it sees our KEXINIT: on a busy machine, for a window.
			if n := client.Exchanges(); n < 3 || n > 2*packets/limit {
				t.Errorf("keys were exchanged %d times for %d packets", n, packets)
			}
		})
	}
}
