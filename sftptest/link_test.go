package sftptest

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

const ms = time.Millisecond

// elapsed runs f and checks how long it took on the fake clock.
func elapsed(t *testing.T, want time.Duration, what string, f func()) {
	t.Helper()
	start := time.Now()
	f()
	if got := time.Since(start); got != want {
		t.Errorf("%s took %v, want %v", what, got, want)
	}
}

func mustWrite(t *testing.T, w io.Writer, s string) {
	t.Helper()
	if n, err := w.Write([]byte(s)); n != len(s) || err != nil {
		t.Fatalf("Write returned %d, %v, want %d, nil", n, err, len(s))
	}
}

func mustRead(t *testing.T, r io.Reader, want string) {
	t.Helper()
	got := make([]byte, len(want))
	if n, err := io.ReadFull(r, got); err != nil || string(got) != want {
		t.Fatalf("read %q, %v, want %q", got[:n], err, want)
	}
}

func mustFail(t *testing.T, r io.Reader, want error) {
	t.Helper()
	if n, err := r.Read(make([]byte, 1)); n != 0 || !errors.Is(err, want) {
		t.Fatalf("Read returned %d, %v, want 0, %v", n, err, want)
	}
}

func TestLinkDelaysEachWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, server := NewLink(LinkConfig{ToServer: 30 * ms, ToClient: 20 * ms})
		elapsed(t, 0, "two writes", func() {
			mustWrite(t, client, "first")
			mustWrite(t, client, "second")
		})
		elapsed(t, 30*ms, "both", func() { mustRead(t, server, "firstsecond") })
		mustWrite(t, server, "answer")
		elapsed(t, 20*ms, "the answer", func() { mustRead(t, client, "answer") })
	})
}

func TestLinkKeepsManyWritesInFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, server := NewLink(LinkConfig{ToServer: 50 * ms})
		go func() {
			for range 10 {
				client.Write([]byte("x"))
				time.Sleep(ms)
			}
			client.Close()
		}()
		// Each byte arrives 50 ms after it was written: the last was written at 9 ms, the end at 10
		// ms.
		elapsed(t, 60*ms, "ten writes and the end", func() {
			if all, err := io.ReadAll(server); string(all) != strings.Repeat("x", 10) ||
				err != nil {
				t.Errorf("read %q, %v", all, err)
			}
		})
	})
}

func TestLinkRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, server := NewLink(LinkConfig{ToServer: 10 * ms, RateBytesPerSec: 1 << 20})
		client.Write(make([]byte, 1<<20))
		client.Close()
		elapsed(t, 1010*ms, "a second's bytes", func() { io.Copy(io.Discard, server) })

		client, server = NewLink(LinkConfig{RateBytesPerSec: 3})
		for range 3 { // thirds of a second are rounded once
			mustWrite(t, client, "x")
		}
		elapsed(t, time.Second, "three bytes", func() { mustRead(t, server, "xxx") })
		time.Sleep(time.Hour) // an idle line accumulates nothing
		mustWrite(t, client, "xxx")
		elapsed(t, time.Second, "three bytes more", func() { mustRead(t, server, "xxx") })
	})
}

func TestLinkBufferBlocksTheWriter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, server := NewLink(LinkConfig{ToServer: 5 * ms, Buffer: 4})
		done := make(chan struct{})
		go func() {
			defer close(done)
			elapsed(t, 10*ms, "ten bytes through a buffer of four",
				func() { mustWrite(t, client, "0123456789") })
		}()
		mustRead(t, server, "0123456789")
		<-done
	})
}

func TestLinkWindowIsOnePerRoundTrip(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, server := NewLink(LinkConfig{ToServer: 30 * ms, ToClient: 20 * ms, Window: 1000})
		go func() {
			client.Write(make([]byte, 10_000))
			client.Close()
		}()
		// Ten windows: nine round trips, and one way for the last.
		elapsed(t, 9*50*ms+30*ms, "ten windows", func() { io.Copy(io.Discard, server) })
	})
}

func TestLinkPieces(t *testing.T) {
	text := strings.Repeat("0123456789", 100)
	pieces := func(c LinkConfig) (sizes []int) {
		client, server := NewLink(c)
		client.Write([]byte(text))
		client.Close()
		var all []byte
		buf := make([]byte, 512)
		for {
			n, err := server.Read(buf)
			if err == io.EOF {
				break
			}
			sizes = append(sizes, n)
			all = append(all, buf[:n]...)
		}
		if string(all) != text {
			t.Errorf("%v changed the text", c)
		}
		return sizes
	}
	if n := len(pieces(LinkConfig{MaxPiece: 1})); n != 1000 {
		t.Errorf("1000 bytes came in %d pieces, want 1000", n)
	}
	first, second := pieces(LinkConfig{MaxPiece: 100, Seed: 5}), pieces(LinkConfig{MaxPiece: 100,
		Seed: 5})
	if len(first) < 11 || len(first) != len(second) {
		t.Errorf("random pieces: %v, then %v", first, second)
	}
	for i := range first {
		if first[i] != second[i] || first[i] > 100 {
			t.Errorf("random pieces: %v, then %v", first, second)
			break
		}
	}
}

func TestLinkClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, server := NewLink(LinkConfig{ToServer: 10 * ms, ToClient: 10 * ms})
		go func() {
			time.Sleep(ms)
			client.Close()
		}()
		mustWrite(t, client, "last")
		elapsed(t, ms, "a Read at the end that closes",
			func() { mustFail(t, client, io.ErrClosedPipe) })
		if _, err := client.Write([]byte("x")); err != io.ErrClosedPipe {
			t.Errorf("Write after Close: %v", err)
		}
		mustWrite(t, server, "the other end does not know yet")
		mustRead(t, server, "last")
		mustFail(t, server, io.EOF)
		if _, err := server.Write([]byte("x")); err != io.ErrClosedPipe {
			t.Errorf("Write to a closed end: %v", err)
		}
		server.Close()
	})
}

func TestLinkCloseWakesBlockedWriter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, server := NewLink(LinkConfig{ToServer: 10 * ms, ToClient: 10 * ms, Buffer: 1})
		go func() {
			time.Sleep(ms)
			server.Close()
		}()
		elapsed(t, ms, "a blocked write", func() { mustWrite(t, client, "vanishes") })
		time.Sleep(10 * ms)
		if _, err := client.Write([]byte("x")); err != io.ErrClosedPipe {
			t.Errorf("Write to a closed end: %v", err)
		}
	})
}

func TestLinkCloseWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, server := NewLink(LinkConfig{ToServer: ms})
		mustWrite(t, client, "question")
		client.CloseWrite()
		if all, err := io.ReadAll(server); string(all) != "question" || err != nil {
			t.Errorf("read %q, %v", all, err)
		}
		mustWrite(t, server, "answer")
		mustRead(t, client, "answer")
	})
}

func TestLinkCut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, server := NewLink(LinkConfig{ToServer: 10 * ms, ToClient: 10 * ms})
		mustWrite(t, client, "arrived")
		time.Sleep(10 * ms)
		mustWrite(t, client, "lost")
		mustWrite(t, server, "lost")
		client.Cut(nil)
		mustRead(t, server, "arrived")
		mustFail(t, server, ErrCut)
		mustFail(t, client, ErrCut)
		if _, err := client.Write([]byte("x")); err != ErrCut {
			t.Errorf("Write to a cut link: %v", err)
		}
	})
}

func TestLinkCutAfter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reset := errors.New("reset")
		client, server := NewLink(LinkConfig{ToServer: 10 * ms, ToClient: 10 * ms})
		server.CutAfter(7, reset)
		mustWrite(t, server, "12345")
		time.Sleep(ms)
		mustWrite(t, server, "67890")
		elapsed(t, 10*ms, "the seventh byte", func() { mustRead(t, client, "1234567") })
		elapsed(t, 0, "the error behind it", func() { mustFail(t, client, reset) })
		mustFail(t, server, reset)
	})
}

func TestLinkSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, server := NewLink(LinkConfig{ToServer: 10 * ms, Buffer: 10})
		client.SilenceAfter(5)
		mustWrite(t, client, "hello, world: longer than the buffer")
		client.Close()
		mustRead(t, server, "hello")
		go func() {
			time.Sleep(time.Hour)
			server.Close()
		}()
		elapsed(t, time.Hour, "a Read from a black hole",
			func() { mustFail(t, server, io.ErrClosedPipe) })
	})
}

func TestLinkSilenceNow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, server := NewLink(LinkConfig{ToServer: 10 * ms, ToClient: 10 * ms})
		mustWrite(t, server, "on its way")
		server.Silence()
		mustWrite(t, server, "lost")
		mustRead(t, client, "on its way")
		mustWrite(t, client, "the other way goes on")
		mustRead(t, server, "the other way goes on")
		client.Close()
		mustFail(t, server, io.EOF)
	})
}

func TestLinkCutAsEOF(t *testing.T) {
	client, server := NewLink(LinkConfig{})
	client.CutAfter(0, io.EOF)
	mustFail(t, server, io.EOF)
	if _, err := server.Write([]byte("x")); err != io.ErrClosedPipe {
		t.Errorf("Write to a link cut by EOF: %v", err)
	}
}

func TestLinkHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, server := NewLink(LinkConfig{ToServer: 10 * ms})
		mustWrite(t, client, "before")
		time.Sleep(10 * ms)
		client.Hold()
		mustRead(t, server, "before")
		mustWrite(t, client, "during")
		go func() {
			time.Sleep(time.Minute)
			client.Release()
			mustWrite(t, client, "after")
		}()
		elapsed(t, time.Minute, "what was held", func() { mustRead(t, server, "during") })
		elapsed(t, 10*ms, "what came after", func() { mustRead(t, server, "after") })
	})
}

func TestLinkInRealTime(t *testing.T) {
	client, server := NewLink(LinkConfig{ToServer: 2 * ms, ToClient: 2 * ms, Buffer: 64 << 10})
	data := bytes.Repeat([]byte("0123456789abcdef"), 1<<14)
	go func() {
		io.Copy(server, server) // echoes
		server.Close()
	}()
	go func() {
		client.Write(data)
		client.CloseWrite()
	}()
	start := time.Now()
	got, err := io.ReadAll(client)
	if err != nil || !bytes.Equal(got, data) {
		t.Errorf("%d of %d bytes came back, %v", len(got), len(data), err)
	}
	if took := time.Since(start); took < 4*ms {
		t.Errorf("a round trip of 4 ms took %v", took)
	}
	client.Close()
}

func TestLinkConfigString(t *testing.T) {
	c := LinkConfig{ToServer: ms, MaxPiece: 1}
	if got, want := c.String(), "sftptest.LinkConfig{ToServer: 1000000, MaxPiece: 1}"; got != want {
		t.Errorf("String returned %s, want %s", got, want)
	}
}
