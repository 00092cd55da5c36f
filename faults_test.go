package usftp_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/sftptest"
	"github.com/usftp/usftp/wire"
)

// chaos is a client that suffers faults while several goroutines use it. Whatever happens, each
// operation ends, with the right bytes or an error.
type chaos struct {
	t      *testing.T
	recipe string
	client *usftp.Client
	server *sftptest.Scripted
	data   []byte // of /a
	names  int    // files in /d
}

func (c *chaos) wrong(format string, args ...any) {
	c.t.Helper()
	c.t.Errorf("%s\n\t%s", fmt.Sprintf(format, args...), c.recipe)
}

// chaosOps are the operations, each of which checks its own result.
var chaosOps = []func(c *chaos, client *usftp.Client, rng *rand.Rand, own string) error{
	(*chaos).readFile, (*chaos).writeTo, (*chaos).readLoop, (*chaos).readAts,
	(*chaos).writeFile, (*chaos).readFrom, (*chaos).writeLoop, (*chaos).writeAts,
	(*chaos).list, (*chaos).stat, (*chaos).copyThrough,
}

func (c *chaos) readFile(client *usftp.Client, _ *rand.Rand, _ string) error {
	got, err := client.ReadFile("/a")
	if err == nil && !bytes.Equal(got, c.data) {
		c.wrong("ReadFile gave %d bytes, not the %d of the file", len(got), len(c.data))
	}
	return err
}

func (c *chaos) writeTo(client *usftp.Client, _ *rand.Rand, _ string) error {
	f, err := client.Open("/a")
	if err != nil {
		return err
	}
	defer f.Close()
	var got bytes.Buffer
	n, err := f.WriteTo(&got)
	if n != int64(got.Len()) || !bytes.HasPrefix(c.data, got.Bytes()) ||
		(err == nil && got.Len() != len(c.data)) {
		c.wrong("WriteTo says %d, %v and gave %d bytes of %d", n, err, got.Len(), len(c.data))
	}
	return err
}

func (c *chaos) readLoop(client *usftp.Client, rng *rand.Rand, _ string) error {
	f, err := client.Open("/a")
	if err != nil {
		return err
	}
	defer f.Close()
	for p, done := make([]byte, 1+rng.IntN(20_000)), 0; ; {
		n, err := f.Read(p)
		if n == 0 && err == nil {
			c.wrong("Read gave nothing and no error at %d", done)
			return nil
		}
		if !bytes.HasPrefix(c.data[done:], p[:n]) || (err == io.EOF && done+n != len(c.data)) {
			c.wrong("Read says %d, %v, and these bytes at %d of %d are wrong or at their end", n, err,
				done, len(c.data))
			return nil
		}
		done += n
		if err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
	}
}

func (c *chaos) readAts(client *usftp.Client, rng *rand.Rand, _ string) error {
	f, err := client.Open("/a")
	if err != nil {
		return err
	}
	defer f.Close()
	var failed error
	type at struct {
		p       []byte
		off     int
		pending *usftp.Pending[int]
	}
	var ats []at
	for range 5 {
		a := at{p: make([]byte, 1+rng.IntN(50_000)), off: rng.IntN(len(c.data) + 10)}
		if rng.IntN(2) == 0 {
			a.pending = f.Async().ReadAt(a.p, int64(a.off))
			ats = append(ats, a)
			continue
		}
		n, err := f.ReadAt(a.p, int64(a.off))
		failed = errors.Join(failed, c.judgeReadAt(a.p, a.off, n, err))
	}
	for _, a := range ats {
		n, err := a.pending.Wait()
		failed = errors.Join(failed, c.judgeReadAt(a.p, a.off, n, err))
	}
	return failed
}

func (c *chaos) judgeReadAt(p []byte, off, n int, err error) error {
	want := c.data[min(off, len(c.data)):min(off+len(p), len(c.data))]
	if n > len(want) || !bytes.Equal(p[:n], want[:n]) || (n < len(p) && err == nil) ||
		(err == io.EOF && n != len(want)) {
		c.wrong("ReadAt(%d, %d) of a file of %d says %d, %v", len(p), off, len(c.data), n, err)
	}
	if err == io.EOF {
		return nil
	}
	return err
}

// judgeWritten compares what is on the server with what an operation returned: n bytes are safe,
// and all of them if there is no error.
func (c *chaos) judgeWritten(what, name string, data []byte, n int64, err error) error {
	got, readErr := c.server.Files.ReadFile(name)
	if readErr != nil && (err == nil || n > 0) {
		c.wrong("%s says %d, %v: %v", what, n, err, readErr)
	}
	if n > int64(len(got)) || !bytes.HasPrefix(data, got[:n]) ||
		(err == nil && !bytes.Equal(got, data)) {
		c.wrong("%s of %d bytes says %d, %v, and the file has %d", what, len(data), n, err,
			len(got))
	}
	return err
}

func (c *chaos) writeFile(client *usftp.Client, rng *rand.Rand, own string) error {
	data := noise(rng.IntN(400_000))
	return c.judgeWritten("WriteFile", own, data, 0, client.WriteFile(own, data, 0o600))
}

func (c *chaos) readFrom(client *usftp.Client, rng *rand.Rand, own string) error {
	f, err := client.Create(own)
	if err != nil {
		return err
	}
	data := noise(rng.IntN(400_000))
	n, err := f.ReadFrom(bytes.NewReader(data))
	err = errors.Join(err, f.Close())
	return c.judgeWritten("ReadFrom", own, data, n, err)
}

func (c *chaos) writeLoop(client *usftp.Client, rng *rand.Rand, own string) error {
	f, err := client.Create(own)
	if err != nil {
		return err
	}
	data := noise(rng.IntN(200_000))
	var failed error
	w := f.Writer()
	for rest := data; len(rest) > 0 && failed == nil; {
		n := min(1+rng.IntN(30_000), len(rest))
		_, failed = w.Write(rest[:n])
		rest = rest[n:]
		if rng.IntN(8) == 0 && failed == nil {
			failed = w.Flush()
		}
	}
	closed := f.Close()
	var refusal *usftp.StatusError
	if errors.As(failed, &refusal) && closed == nil {
		c.wrong("a Write failed (%v) and Close says nothing of it", failed)
	}
	return c.judgeWritten("a loop of Writes", own, data, 0, errors.Join(failed, closed))
}

func (c *chaos) writeAts(client *usftp.Client, rng *rand.Rand, own string) error {
	f, err := client.Create(own)
	if err != nil {
		return err
	}
	data := noise(100_000)
	var failed error
	var pending []*usftp.Pending[int]
	const piece = 20_000
	for off := 0; off < len(data); off += piece {
		p := bytes.Clone(data[off : off+piece])
		if rng.IntN(2) == 0 {
			pending = append(pending, f.Async().WriteAt(p, int64(off)))
			clear(p) // the client has copied it
			continue
		}
		n, err := f.WriteAt(p, int64(off))
		if n < piece && err == nil {
			c.wrong("WriteAt says %d of %d and no error", n, piece)
		}
		failed = errors.Join(failed, err)
	}
	for _, p := range pending {
		n, err := p.Wait()
		if n < piece && err == nil {
			c.wrong("async WriteAt says %d of %d and no error", n, piece)
		}
		failed = errors.Join(failed, err)
	}
	failed = errors.Join(failed, f.Close())
	return c.judgeWritten("WriteAt", own, data, 0, failed)
}

func (c *chaos) list(client *usftp.Client, _ *rand.Rand, _ string) error {
	files, err := client.ReadDir("/d")
	seen := make(map[string]bool)
	for _, f := range files {
		seen[f.BaseName()] = true
	}
	if len(seen) != len(files) || (err == nil && len(files) != c.names) {
		c.wrong("ReadDir gave %d names, %d of them once, of %d, and %v", len(files), len(seen),
			c.names, err)
	}
	return err
}

func (c *chaos) stat(client *usftp.Client, _ *rand.Rand, _ string) error {
	info, err := client.Stat("/a")
	if stat, ok := sysOf(info); ok && stat.HasSize() && info.Size() != int64(len(c.data)) {
		c.wrong("Stat says %d bytes of %d", info.Size(), len(c.data))
	}
	return err
}

func sysOf(info fs.FileInfo) (*usftp.FileStat, bool) {
	if info == nil {
		return nil, false
	}
	stat, ok := info.Sys().(*usftp.FileStat)
	return stat, ok
}

// copyThrough reads one file into another over the same connection.
func (c *chaos) copyThrough(client *usftp.Client, _ *rand.Rand, own string) error {
	from, err := client.Open("/a")
	if err != nil {
		return err
	}
	defer from.Close()
	to, err := client.OpenFile(own, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	n, err := to.ReadFrom(io.MultiReader(from)) // calls Read
	err = errors.Join(err, to.Close())
	return c.judgeWritten("a copy", own, c.data, n, err)
}

// newChaos starts a server with a file and a directory, and a client. It must be called within a
// bubble.
func newChaos(t *testing.T, seed uint64, script sftptest.Script,
	link sftptest.LinkConfig) (*chaos, error) {
	rng := rand.New(rand.NewPCG(seed, 11))
	c := &chaos{t: t, server: sftptest.NewScripted(script), data: noise(rng.IntN(600_000)),
		names: rng.IntN(300)}
	c.recipe = fmt.Sprintf("seed %d: %v, %v", seed, script, link)
	c.server.Files.WriteFile("/a", c.data)
	c.server.Files.Mkdir("/d")
	for i := range c.names {
		c.server.Files.WriteFile(fmt.Sprint("/d/", i), nil)
	}
	stream := c.server.Dial(link)
	var err error
	c.client, err = usftp.NewClientPipe(stream, stream, usftp.WithMaxInFlight(1<<20),
		usftp.WithKeepalive(func(context.Context) error { return errors.New("nobody there") }))
	return c, err
}

// run makes several goroutines do some operations each. begin returns the context of each
// operation.
func (c *chaos) run(seed uint64, begin func(*rand.Rand) (context.Context, context.CancelFunc)) {
	var wg sync.WaitGroup
	for i := range 3 {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(seed, uint64(20+i)))
			for j := range 3 {
				ctx, cancel := begin(rng)
				k := rng.IntN(len(chaosOps))
				began := time.Now()
				err := chaosOps[k](c, c.client.WithContext(ctx), rng, fmt.Sprintf("/own%d%d", i, j))
				cancel()
				if took := time.Since(began); took > time.Hour {
					c.wrong("operation %d took %v: %v", k, took, err)
				}
				if err != nil && (strings.Contains(err.Error(), "mistake in usftp") ||
					strings.ContainsAny(err.Error(), "\x00\x1b")) {
					c.wrong("operation %d: %v", k, err)
				}
			}
		})
	}
	wg.Wait()
}

// end closes everything and checks that nothing is left.
func (c *chaos) end() {
	c.client.Close()
	c.server.Close()
	synctest.Wait()
	if out := usftp.PoolOut(c.client); out != 0 {
		c.wrong("%d bytes of the pool are out at the end", out)
	}
}

// TestRandomFaults: unusual servers, one or two of whose replies are spoiled.
func TestRandomFaults(t *testing.T) {
	for seed := range uint64(chaosRuns) {
		script := sftptest.RandomScript(seed)
		rng := rand.New(rand.NewPCG(seed, 10))
		handlesMayLeak := false
		if rng.IntN(4) == 0 && script.Reorder == 0 { // what has arrived before the handle counts
			script.SharedHandles = 1 + rng.IntN(3)
		}
		for range 1 + rng.IntN(2) {
			fault := sftptest.RandomFault(rng.Uint64())
			if strings.Contains(fault.Do.String(), "TypeStatus") {
				continue // a server that does nothing but reports success cannot be caught
			}
			switch fault.On {
			case wire.TypeOpen, wire.TypeOpendir, wire.TypeClose, 0:
				handlesMayLeak = true
			}
			script.Faults = append(script.Faults, fault)
		}
		bubble(t, func(t *testing.T) {
			c, err := newChaos(t, seed, script, sftptest.RandomLink(seed))
			if err != nil {
				c.server.Close()
				return
			}
			c.run(seed, func(*rand.Rand) (context.Context, context.CancelFunc) {
				return context.WithTimeout(context.Background(), 20*time.Minute)
			})
			time.Sleep(time.Minute) // for what was closed without waiting
			c.alive(handlesMayLeak)
			c.end()
		})
	}
}

// alive checks an idle client whose connection is alive.
func (c *chaos) alive(handlesMayLeak bool) {
	select {
	case <-c.client.Done():
		return
	default:
	}
	if n := c.server.OpenHandles(); n > 0 && !handlesMayLeak {
		c.wrong("%d handles are open on the server", n)
	}
	if out := usftp.PoolOut(c.client); out != 0 {
		c.wrong("%d bytes of the pool are out with nothing under way", out)
	}
	if free := usftp.BudgetFree(c.client); free != 1<<20 && !handlesMayLeak {
		c.wrong("%d bytes of the budget of %d are free with nothing under way", free, 1<<20)
	}
}

const chaosRuns = 60

// TestRandomCancellation: contexts end at any moment. The connection stays alive, and nothing is
// left of what was cancelled.
func TestRandomCancellation(t *testing.T) {
	for seed := range uint64(chaosRuns) {
		bubble(t, func(t *testing.T) {
			link := sftptest.RandomLink(seed)
			c, err := newChaos(t, seed, sftptest.RandomScript(seed), link)
			if err != nil {
				t.Fatal(err)
			}
			c.run(seed, func(rng *rand.Rand) (context.Context, context.CancelFunc) {
				after := time.Duration(rng.Int64N(int64(8*link.RTT()) + int64(20*time.Millisecond)))
				return context.WithTimeout(context.Background(), after)
			})
			if _, err := c.client.Stat("/a"); err != nil {
				c.wrong("the client is of no more use: %v", err)
			}
			time.Sleep(10 * time.Minute) // slow links have much to deliver that is no longer needed
			c.alive(false)
			if err := c.readFile(c.client, nil, ""); err != nil {
				c.wrong("the client is of no more use: %v", err)
			}
			c.end()
		})
	}
}

// shortSession is what a broken connection interrupts: a bit of everything. It returns how far it
// came and what failed.
func shortSession(client *usftp.Client, old, fresh []byte) (done int, err error) {
	for _, step := range []func() error{
		func() error {
			got, err := client.ReadFile("/old")
			if err == nil && !bytes.Equal(got, old) {
				return fmt.Errorf("ReadFile gave %d bytes of %d and no error", len(got), len(old))
			}
			return err
		},
		func() error {
			files, err := client.ReadDir("/d")
			if err == nil && len(files) != 5 {
				return fmt.Errorf("ReadDir gave %d names and no error", len(files))
			}
			return err
		},
		func() error {
			f, err := client.OpenFile("/part", os.O_WRONLY|os.O_CREATE, 0o600)
			if err != nil {
				return err
			}
			n, err := f.ReadFrom(bytes.NewReader(fresh))
			if err == nil && n != int64(len(fresh)) {
				return fmt.Errorf("ReadFrom took %d bytes and no error", n)
			}
			return errors.Join(err, f.Close())
		},
		func() error {
			f, err := client.OpenFile("/more", os.O_RDWR|os.O_CREATE, 0o600)
			if err != nil {
				return err
			}
			w := f.Writer()
			for rest := fresh; len(rest) > 0; rest = rest[min(100, len(rest)):] {
				if _, err := w.Write(rest[:min(100, len(rest))]); err != nil {
					return errors.Join(err, f.Close())
				}
			}
			return errors.Join(f.Sync(), f.Close())
		},
		func() error { return client.PosixRename("/part", "/old") },
	} {
		if err := step(); err != nil {
			return done, err
		}
		done++
	}
	return done, nil
}

// TestCutAfterEveryByte: a connection breaks, or ends, after any number of bytes in either
// direction. Every call ends with an error that says so, nothing that was reported done is missing,
// and the target is either the old one or the new one.
func TestCutAfterEveryByte(t *testing.T) {
	old, fresh := noise(1500), noise(1700)
	run := func(t *testing.T, cut func(client, server *sftptest.End)) (toServer, toClient int64) {
		bubble(t, func(t *testing.T) {
			server := sftptest.NewScripted(sftptest.Script{})
			server.Files.WriteFile("/old", old)
			for i := range 5 {
				server.Files.WriteFile(fmt.Sprint("/d/", i), nil)
			}
			clientEnd, serverEnd := sftptest.NewLink(sftptest.LinkConfig{ToServer: time.Millisecond,
				ToClient: time.Millisecond})
			served := make(chan error, 1)
			go func() { served <- server.Serve(serverEnd) }()
			cut(clientEnd, serverEnd)
			began := time.Now()
			count := sftptest.NewCounter(clientEnd)
			client, err := usftp.NewClientPipe(count, count, usftp.WithMaxPacket(512),
				usftp.WithServerVersion(openSSH),
				usftp.WithKeepalive(func(context.Context) error {
					return errors.New("nobody there")
				}))
			done := 0
			if err == nil {
				done, err = shortSession(client, old, fresh)
				client.Close()
				if out := usftp.PoolOut(client); out != 0 {
					t.Errorf("%d bytes of the pool are out", out)
				}
				stats := client.Stats()
				toServer, toClient = stats.BytesWritten, stats.BytesRead
			}
			clientEnd.Close()
			serverEnd.Close() // the client may have stopped sending to it
			<-served
			synctest.Wait()
			if err != nil && !errors.Is(err, net.ErrClosed) {
				t.Errorf("step %d: %v", done, err)
			}
			if took := time.Since(began); took > 5*time.Minute {
				t.Errorf("step %d: it took %v", done, took)
			}
			got, _ := server.Files.ReadFile("/old")
			if !bytes.Equal(got, fresh) && (done == 5 || !bytes.Equal(got, old)) {
				t.Errorf("after %d steps the target has %d bytes that are neither the old nor the new", done, len(got))
			}
			if more, _ := server.Files.ReadFile("/more"); done >= 4 && !bytes.Equal(more, fresh) {
				t.Errorf("after %d steps, what was synced has %d bytes", done, len(more))
			}
		})
		return toServer, toClient
	}
	toServer, toClient := run(t, func(_, _ *sftptest.End) {})
	if t.Failed() || toServer < 3000 || toClient < 3000 {
		t.Fatalf("the whole session has %d and %d bytes", toServer, toClient)
	}
	ways := []func(n int64) func(client, server *sftptest.End){
		func(n int64) func(_, _ *sftptest.End) {
			return func(c, _ *sftptest.End) {
				c.CutAfter(n,
					nil)
			}
		},
		func(n int64) func(_, _ *sftptest.End) {
			return func(_, s *sftptest.End) {
				s.CutAfter(n,
					nil)
			}
		},
		func(n int64) func(_, _ *sftptest.End) {
			return func(_, s *sftptest.End) { s.SilenceAfter(n) }
		},
		func(n int64) func(_, _ *sftptest.End) {
			return func(c, _ *sftptest.End) { c.SilenceAfter(n) }
		},
	}
	for way, cut := range ways {
		total := []int64{toServer, toClient, toClient, toServer}[way]
		for n := int64(way); n < total; n += 3 {
			run(t, cut(n))
			if t.Failed() {
				t.Fatalf("way %d, after %d of %d bytes", way, n, total)
			}
		}
	}
}
