package transfer_test

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/dial"
	"github.com/usftp/usftp/internal/cutproxy"
	"github.com/usftp/usftp/pool"
	"github.com/usftp/usftp/sftptest/opensshd"
	"github.com/usftp/usftp/transfer"
)

// throughProxy is a host behind a proxy that breaks connections.
func throughProxy(t *testing.T, sshd *opensshd.Server, proxy *cutproxy.Proxy) pool.Host {
	t.Helper()
	target, err := dial.ParseHost(sshd.Alias)
	if err != nil {
		t.Fatal(err)
	}
	d, err := dial.New(t.Context(), target,
		&dial.Config{ConfigFile: sshd.ConfigFile, Port: proxy.Port,
			Options: []string{fmt.Sprintf("HostKeyAlias=[%s]:%d", sshd.Host, sshd.Port)}})
	if err != nil {
		t.Fatal(err)
	}
	var host pool.Host
	host.Redial = func(ctx context.Context) (pool.Host, error) {
		conn, err := d.Dial(ctx)
		if err != nil {
			return pool.Host{}, err
		}
		t.Cleanup(func() { conn.Close() })
		stream, err := conn.Open(ctx)
		if err != nil {
			return pool.Host{}, err
		}
		client, err := usftp.NewClientPipe(stream, stream,
			usftp.WithServerVersion(conn.ServerVersion()), usftp.WithKeepalive(conn.Keepalive))
		if err != nil {
			return pool.Host{}, err
		}
		t.Cleanup(func() { client.Close() })
		host.Client, host.Name = client, "far"
		return host, nil
	}
	if _, err := host.Redial(t.Context()); err != nil {
		t.Fatal(err)
	}
	return host
}

// TestRealServerCutAgainAndAgain: trees to and from OpenSSH's server, over connections reset after
// random numbers of bytes, arrive byte for byte, and no finished file is written again: it keeps
// its inode.
func TestRealServerCutAgainAndAgain(t *testing.T) {
	t.Parallel()
	sshd := opensshd.Start(t, opensshd.Options{})
	for seed, direction := range []way{upload, download} {
		t.Run(fmt.Sprintf("seed %d %v", seed, direction),
			func(t *testing.T) { realCut(t, sshd, uint64(seed), direction) })
	}
}

func realCut(t *testing.T, sshd *opensshd.Server, seed uint64, direction way) {
	const files, cuts = 300, 8
	rng := rand.New(rand.NewPCG(seed, 43))
	b := &bench{t: t, dir: t.TempDir()}
	source, target := b.mixed("source", files, 3_300_000, rng), filepath.Join(b.dir, "target")
	var breaks []int64
	for range cuts {
		breaks = append(breaks, int64(300_000+rng.IntN(2_500_000)))
	}
	proxy := cutproxy.Start(t, sshd.Addr(), breaks...)
	b.host = throughProxy(t, sshd, proxy)

	var mu sync.Mutex
	finished := make(map[string]os.FileInfo) // by target
	var told []string
	began := time.Now()
	tree := treeJob{Host: b.host, Direction: direction, Source: source, Target: target}
	tree.Options.Retries = 10
	tree.Options.Backoff = func(int) time.Duration { return time.Millisecond }
	tree.Options.Events = func(e transfer.Event) {
		mu.Lock()
		defer mu.Unlock()
		switch e.Kind {
		case transfer.Done:
			info, err := os.Stat(e.Target)
			if err != nil || finished[e.Target] != nil {
				t.Errorf("%s is done again, or not there: %v", e.Target, err)
			}
			finished[e.Target] = info
		case transfer.Retried:
			told = append(told, fmt.Sprintf("%.1f s: %s", time.Since(began).Seconds(), e.Message))
		}
	}
	s, err := tree.Run(t.Context())
	defer func() {
		if t.Failed() {
			t.Logf("seed %d, %d connections through %v; it was told:\n%s", seed,
				proxy.Connections(), breaks, strings.Join(told, "\n"))
		}
	}()
	t.Logf("it took %.1f s", time.Since(began).Seconds())
	if err != nil || s.Files != files || s.Links != 1 || len(finished) != files {
		t.Fatalf("%d are done; %+v, %v", len(finished), s, err)
	}
	if proxy.Connections() < cuts/2 || len(told) < proxy.Connections()-1 {
		t.Errorf("%d connections and %d tries: too few to prove anything", proxy.Connections(),
			len(told))
	}
	for name := range maps.Keys(finished) {
		if now, err := os.Stat(name); err != nil || !os.SameFile(now, finished[name]) {
			t.Errorf("%s was written again: %v", name, err)
		}
	}
	sameTrees(t, source, target)
	sameContents(t, source, target)
	filepath.WalkDir(target, func(name string, d os.DirEntry, err error) error {
		if err != nil || strings.Contains(name, ".usftp-") {
			t.Errorf("left behind: %s, %v", name, err)
		}
		return nil
	})
}
