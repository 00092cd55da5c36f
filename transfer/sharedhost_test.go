package transfer_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/usftp/usftp/pool"
	"github.com/usftp/usftp/sftptest"
	"github.com/usftp/usftp/transfer"
	"github.com/usftp/usftp/wire"
)

// asked returns how many bytes of a file of a size the server was asked for.
func (b *bench) asked(size int64) (bytes int64) {
	for _, r := range b.server.Requests(wire.TypeRead) {
		bytes += max(0, min(int64(r.Length), size-int64(r.Offset)))
	}
	return bytes
}

// copyFromHost copies a file from a host to a host behind each link.
func copyFromHost(t *testing.T, shared *transfer.Shared, from *transfer.SharedHost,
	links []sftptest.LinkConfig, o transfer.Options) *sharedCopies {
	t.Helper()
	return copyShared(t, shared, links, func(_ int, b *bench) error {
		_, err := transfer.Copy(t.Context(), transfer.Remote(b.host, "/target"),
			from.Remote("/source"), o)
		return err
	})
}

// TestSharedHostFile: a file on a host is read once for all hosts that keep up, however many there
// are. A slow one reads it separately, at no cost to the others.
func TestSharedHostFile(t *testing.T) {
	t.Parallel()
	const memory = 2 << 20
	data := random(8<<20 + 12345)
	size := int64(len(data))
	for _, test := range []struct {
		name  string
		links []sftptest.LinkConfig
		most  int64 // asked for at the source
	}{
		{"one host", []sftptest.LinkConfig{near}, size},
		{"three hosts", slowly(near, 3), size},
		{"eight hosts", slowly(near, 8), size},
		// if the stream was the slow one's, the others start another, and lose what was in flight
		{"a slow one", []sftptest.LinkConfig{near, slowLink, near}, 3 * size},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				source := newBench(t, sftptest.Script{}, near)
				source.server.Files.WriteFile("/source", data)
				shared := transfer.NewShared(memory)
				defer shared.Close()
				s := copyFromHost(t, shared, shared.Host(source.host), test.links,
					transfer.Options{})
				for i := range s.hosts {
					s.hasTarget(t, i, data)
					if test.links[i] == near && s.took[i] > 500*time.Millisecond {
						t.Errorf("host %d took %v", i, s.took[i])
					}
				}
				asked := source.asked(size)
				t.Logf("asked for %.2f times the file", float64(asked)/float64(size))
				if asked < size || asked > test.most {
					t.Errorf("the source was asked for %d bytes of a file of %d, at most %d",
						asked, size, test.most)
				}
				if most := int64(memory + len(test.links)*(256<<10)); s.memory > most {
					t.Errorf("%d bytes of memory, want at most %d", s.memory, most)
				}
				time.Sleep(time.Second) // a handle is closed without waiting for the answer
				if left := source.server.OpenHandles(); left != 0 {
					t.Errorf("%d handles are open at the source", left)
				}
			})
		})
	}
}

// TestSharedHostTree: the files of a tree on a host are read once, small and large ones.
func TestSharedHostTree(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source := newTreeBench(t, sftptest.Script{}, near)
		want, size := make(map[string][]byte), int64(0)
		add := func(name string, n int) {
			data := random(n)
			source.server.Files.WriteFile("/tree/"+name, data)
			want[name] = data
			size += int64(n)
		}
		for i := range 100 {
			add(fmt.Sprintf("d%d/small%d", i%7, i), 1000+i)
		}
		add("empty", 0)
		add("large", 3<<20+17)
		add("d1/block", 512<<10)
		shared := transfer.NewShared(0)
		defer shared.Close()
		from := shared.Host(source.host)
		s := copyShared(t, shared, slowly(near, 3), func(_ int, b *bench) error {
			_, err := transfer.CopyTree(t.Context(), transfer.Remote(b.host, "/tree"),
				from.Remote("/tree"), transfer.TreeOptions{})
			return err
		})
		s.haveTree(t, want)
		if shared.BytesRead() != size {
			t.Errorf("%d bytes were read of %d", shared.BytesRead(), size)
		}
		time.Sleep(time.Second)
		if left := source.server.OpenHandles(); left != 0 {
			t.Errorf("%d handles are open at the source", left)
		}
	})
}

// TestSharedHostTargetDies: if the copy that asks the source for all of them ends, another takes
// over.
func TestSharedHostTargetDies(t *testing.T) {
	data := random(8<<20 + 12345)
	size := int64(len(data))
	for dying := range 2 {
		t.Run(fmt.Sprintf("host %d dies", dying), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				source := newBench(t, sftptest.Script{}, near)
				source.server.Files.WriteFile("/source", data)
				shared := transfer.NewShared(2 << 20)
				defer shared.Close()
				from := shared.Host(source.host)
				s := copyShared(t, shared, slowly(near, 2), func(i int, b *bench) error {
					if i == dying {
						time.AfterFunc(40*time.Millisecond, func() { b.host.Client.Close() })
					}
					_, err := transfer.Copy(t.Context(), transfer.Remote(b.host, "/target"),
						from.Remote("/source"), transfer.Options{})
					return err
				})
				for i := range s.hosts {
					if i != dying {
						s.hasTarget(t, i, data)
					} else if !errors.Is(s.errs[i], net.ErrClosed) {
						t.Errorf("the dead host: %v", s.errs[i])
					}
				}
				if asked := source.asked(size); asked >= 2*size {
					t.Errorf("the source was asked for %d bytes of a file of %d", asked, size)
				}
			})
		})
	}
}

// TestSharedHostLost: all copies continue over the connection that replaces the source's, which is
// made once.
func TestSharedHostLost(t *testing.T) {
	data := random(8<<20 + 12345)
	for _, replaced := range []bool{true, false} {
		name := "replaced"
		if !replaced {
			name = "for good"
		}
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				source := newBench(t, sftptest.Script{}, near)
				source.server.Files.WriteFile("/source", data)
				first := source.host.Client
				var redials atomic.Int32
				source.host.Redial = func(context.Context) (pool.Host, error) {
					redials.Add(1)
					time.Sleep(100 * time.Millisecond)
					if !replaced {
						return pool.Host{}, errors.New("nobody is there")
					}
					return connect(t, source.server.Dial(near)), nil
				}
				time.AfterFunc(40*time.Millisecond, func() { first.Close() })
				shared := transfer.NewShared(2 << 20)
				defer shared.Close()
				s := copyFromHost(t, shared, shared.Host(source.host), slowly(near, 3),
					transfer.Options{Retry: pool.Retry{Retries: 2}})
				for i := range s.hosts {
					if replaced {
						s.hasTarget(t, i, data)
					} else if s.errs[i] == nil {
						t.Errorf("host %d: no error", i)
					}
				}
				if n := redials.Load(); replaced && n != 1 {
					t.Errorf("%d connections were made", n)
				}
			})
		})
	}
}

// TestSharedHostRewritten: what was read of a file before it was written to again within the second
// of its time is not passed off as the file to a copy that starts later.
func TestSharedHostRewritten(t *testing.T) {
	for _, size := range []int{1000, 300_000, 3_000_000} {
		t.Run(fmt.Sprintf("%d bytes", size), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				source := newBench(t, sftptest.Script{}, near)
				written, version := time.Now(), byte(0)
				write := func() []byte {
					data := random(size)
					version++
					data[size/2] ^= version
					source.server.Files.WriteFile("/tree/source", data)
					if err := source.server.Files.SetTimes("/tree/source", written,
						written); err != nil {
						t.Fatal(err)
					}
					return data
				}
				write()
				shared := transfer.NewShared(0)
				defer shared.Close()
				from := shared.Host(source.host)
				for _, tree := range []bool{false, true} {
					copyTo := func(name string) (*bench, error) {
						b := newBench(t, sftptest.Script{}, near)
						if tree {
							_, err := transfer.CopyTree(t.Context(), transfer.Remote(b.host, name),
								from.Remote("/tree"), transfer.TreeOptions{})
							return b, err
						}
						b.server.Files.Mkdir(name)
						_, err := transfer.Copy(t.Context(),
							transfer.Remote(b.host, name+"/source"),
							from.Remote("/tree/source"), transfer.Options{})
						return b, err
					}
					if _, err := copyTo("/first"); err != nil {
						t.Fatal(err)
					}
					now := write()
					time.Sleep(time.Hour)
					b, err := copyTo("/second")
					if err == nil && !bytes.Equal(b.remote("/second/source"), now) {
						t.Error("the second copy is the file as it was")
					}
					written = time.Now()
					write()
				}
			})
		})
	}
}
