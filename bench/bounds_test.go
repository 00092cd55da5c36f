package bench

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/usftp/usftp/bench/floor"
	"github.com/usftp/usftp/bench/library"
	"github.com/usftp/usftp/bench/pipes"
	"github.com/usftp/usftp/bench/result"
	"github.com/usftp/usftp/sftptest"
)

// counts are the costs of a transfer of 10 MiB that do not depend on how fast the machine
// is.
type counts struct {
	Allocations    float64 `json:"allocations"`
	AllocatedBytes float64 `json:"allocated_bytes"`
	// RoundTrips are those that a whole transfer waits for: open, data and close.
	RoundTrips float64 `json:"round_trips"`
	// ReadsPerMiB and WritesPerMiB are the calls on the stream, which are system calls on a pipe.
	ReadsPerMiB  float64 `json:"reads_per_mib"`
	WritesPerMiB float64 `json:"writes_per_mib"`
}

// boundsFile holds the greatest counts allowed: contestant, operation, counts. A change that costs
// more either mends itself or raises a bound there, for everyone to see.
const boundsFile = "bounds.json"

const floorName = "floor"

func readBounds(t *testing.T) map[string]map[string]counts {
	t.Helper()
	text, err := os.ReadFile(boundsFile)
	if err != nil {
		t.Fatal(err)
	}
	var bounds map[string]map[string]counts
	if err := json.Unmarshal(text, &bounds); err != nil {
		t.Fatalf("%s: %v", boundsFile, err)
	}
	return bounds
}

// TestBounds holds every contestant to its bounds, the peers and the floor as a check of the
// counters themselves.
func TestBounds(t *testing.T) {
	bounds := readBounds(t)
	path, content := randomFile(t, transferSize)
	target := path + ".up"

	check := func(t *testing.T, contestant, op string, got counts) {
		t.Helper()
		t.Logf("%+v", got)
		bound, ok := bounds[contestant][op]
		if !ok {
			t.Fatalf("%s has no bounds for %s of %s", boundsFile, op, contestant)
		}
		for _, count := range []struct {
			name       string
			got, bound float64
		}{
			{"allocations", got.Allocations, bound.Allocations},
			{"allocated bytes", got.AllocatedBytes, bound.AllocatedBytes},
			{"round trips", got.RoundTrips, bound.RoundTrips},
			{"reads per MiB", got.ReadsPerMiB, bound.ReadsPerMiB},
			{"writes per MiB", got.WritesPerMiB, bound.WritesPerMiB},
		} {
			if count.got > count.bound {
				t.Errorf("%s: %.1f, at most %.1f is allowed", count.name, count.got, count.bound)
			}
			// Nothing moves a file for nothing: a count of zero is a counter that does not count.
			if count.got == 0 && count.bound > 0 {
				t.Errorf("%s: none counted", count.name)
			}
		}
	}

	for _, lib := range library.All() {
		t.Run(lib.Name+"/WriteTo", func(t *testing.T) {
			down := func(from string) func(library.Client) error {
				return func(c library.Client) error { return download(c, from, transferSize) }
			}
			got := countOverPipes(t, lib, down(path))
			got.RoundTrips = roundTrips(t, lib, content, down(scriptedSource))
			check(t, lib.Name, "WriteTo", got)
		})
		t.Run(lib.Name+"/ReadFrom", func(t *testing.T) {
			up := func(to string) func(library.Client) error {
				return func(c library.Client) error {
					return upload(c, to,
						&pieces{content, len(content)})
				}
			}
			got := countOverPipes(t, lib, up(target))
			checkFile(t, target, content)
			got.RoundTrips = roundTrips(t, lib, nil, up(scriptedTarget))
			check(t, lib.Name, "ReadFrom", got)
		})
	}
	t.Run(floorName+"/WriteTo", func(t *testing.T) {
		check(t, floorName, "WriteTo", countFloor(t, func(c *floor.Client) error {
			return c.Download(path, transferSize, floor.Setting{Packet: 261120, InFlight: 16})
		}))
	})
	t.Run(floorName+"/ReadFrom", func(t *testing.T) {
		check(t, floorName, "ReadFrom", countFloor(t, func(c *floor.Client) error {
			return c.Upload(target, transferSize, floor.Setting{Packet: 261120, InFlight: 16})
		}))
	})
}

// TestBoundsAreAllUsed finds bounds that bound nothing: a misspelt name would otherwise guard
// nothing.
func TestBoundsAreAllUsed(t *testing.T) {
	known := map[string]bool{floorName: true, "usftp": true} // the latter's build tag may be off
	for _, lib := range library.All() {
		known[lib.Name] = true
	}
	for contestant, ops := range readBounds(t) {
		if !known[contestant] {
			t.Errorf("bounds for %q, which is no contestant", contestant)
		}
		for op := range ops {
			if op != "WriteTo" && op != "ReadFrom" {
				t.Errorf("bounds for %q of %s, which is not measured", op, contestant)
			}
		}
	}
}

// countedTransfers is how many transfers are counted after the first, of which the median counts: a
// garbage collection in the middle of one may empty its pools.
const countedTransfers = 7

// countAllocations runs transfer once unseen and then takes the medians of several.
func countAllocations(t *testing.T, transfer func() error) (got counts) {
	t.Helper()
	if err := transfer(); err != nil {
		t.Fatal(err)
	}
	var allocations, bytes []float64
	for range countedTransfers {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		if err := transfer(); err != nil {
			t.Fatal(err)
		}
		runtime.ReadMemStats(&after)
		allocations = append(allocations, float64(after.Mallocs-before.Mallocs))
		bytes = append(bytes, float64(after.TotalAlloc-before.TotalAlloc))
	}
	return counts{Allocations: result.Median(allocations), AllocatedBytes: result.Median(bytes)}
}

func countOverPipes(t *testing.T, lib library.Library, transfer func(library.Client) error) counts {
	t.Helper()
	server := startServer(t, pipes.LargePipe)
	stream := &pipes.Counted{R: server.R, W: server.W}
	client, err := lib.OverPipe(stream, stream)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	stream.Reset()
	got := countAllocations(t, func() error { return transfer(client) })
	const mebibytes = (countedTransfers + 1) * transferSize >> 20
	got.ReadsPerMiB = float64(stream.Reads.Load()) / mebibytes
	got.WritesPerMiB = float64(stream.Writes.Load()) / mebibytes
	return got
}

func countFloor(t *testing.T, transfer func(*floor.Client) error) counts {
	t.Helper()
	server := startServer(t, pipes.LargePipe)
	client, err := floor.New(server.R, server.W)
	if err != nil {
		t.Fatal(err)
	}
	reads, writes := client.Reads, client.Writes
	got := countAllocations(t, func() error { return transfer(client) })
	const mebibytes = (countedTransfers + 1) * transferSize >> 20
	got.ReadsPerMiB = float64(client.Reads-reads) / mebibytes
	got.WritesPerMiB = float64(client.Writes-writes) / mebibytes
	return got
}

// roundTrips counts the waits of a transfer: over a link whose only cost is the delay of the
// client's writes, on a clock that stands still while anyone computes, against a server that
// answers as OpenSSH's does.
func roundTrips(t *testing.T, lib library.Library, content []byte,
	transfer func(library.Client) error) (trips float64) {
	t.Helper()
	const delay = time.Second
	synctest.Test(t, func(t *testing.T) {
		server := sftptest.NewServer(t, sftptest.Script{})
		server.Files.WriteFile(scriptedSource, content)
		stream := server.Dial(sftptest.LinkConfig{ToServer: delay})
		client, err := lib.OverPipe(stream, stream)
		if err != nil {
			t.Fatal(err)
		}
		// Once unseen, as for the allocations: what a client learns from a first transfer it may
		// use.
		err = transfer(client)
		start := time.Now()
		err = errors.Join(err, transfer(client))
		trips = float64(time.Since(start)) / float64(delay)
		if err := errors.Join(err, client.Close()); err != nil {
			t.Error(err)
		}
	})
	return trips
}

// The names of files on the scripted server.
const (
	scriptedSource = "/source"
	scriptedTarget = "/target"
)

// TestFloorMovesWhatIsAsked: a floor that did less than its work would be a wrong measure.
func TestFloorMovesWhatIsAsked(t *testing.T) {
	path, _ := randomFile(t, transferSize)
	server := startServer(t, 0)
	client, err := floor.New(server.R, server.W)
	if err != nil {
		t.Fatal(err)
	}
	for _, setting := range floor.Settings() {
		if err := client.Download(path, transferSize, setting); err != nil {
			t.Errorf("%s: %v", setting, err)
		}
		target := filepath.Join(filepath.Dir(path), "target")
		const odd = transferSize - 12345
		if err := client.Upload(target, odd, setting); err != nil {
			t.Errorf("%s: %v", setting, err)
		}
		if info, err := os.Stat(target); err != nil || info.Size() != odd {
			t.Errorf("%s: uploaded %v (%v), want %d bytes", setting, info, err, odd)
		}
	}
	if err := client.Download(path+".absent", 1, floor.Settings()[0]); err == nil {
		t.Error("a file that is not there was read")
	}
}
