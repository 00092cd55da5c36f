package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/usftp/usftp/bench/library"
	"github.com/usftp/usftp/bench/measure"
	"github.com/usftp/usftp/bench/result"
	"github.com/usftp/usftp/bench/rows"
	"github.com/usftp/usftp/bench/sshd"
	"github.com/usftp/usftp/bench/turns"
	"github.com/usftp/usftp/bench/wan"
)

const (
	// longPort is where sshd listens at the far end of a long link, whose network is its own.
	longPort = "2222"
	// firstByteRTT and firstByteMark are those of the proxy that counts round trips. No login has
	// as many bytes in one direction as the mark; the files of those rows have four times as many.
	firstByteRTT  = 200 * time.Millisecond
	firstByteMark = 16 << 10
	// Rows about time sample the memory rarely.
	sampleRate   = 20 * time.Millisecond
	sampleMemory = 2 * time.Millisecond
)

// job is a row being run.
type job struct {
	row    rows.Row
	usftp  string
	source string
	part   string // of a tree, for who copies no more
	old    string // an older version of the source, if the row has one
	target string
	link   *wan.Link // nil for the loopback
	far    *wan.Side // of the link
	server *sshd.Server
	ours   *usftpServer // nil where no contestant needs it
	meter  measure.Runner
}

// runRow runs every contestant once in each round, and hands each run to keep as soon as it is
// known.
func runRow(ctx context.Context, o options, row rows.Row,
	keep func(result.Run) error) (runs []result.Run, err error) {
	dir, err := os.MkdirTemp(o.dir, "usftp-bench-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	j := &job{row: row, usftp: o.usftp, source: filepath.Join(dir, "source"),
		part:   filepath.Join(dir, "part"),
		old:    filepath.Join(dir, "old"),
		target: filepath.Join(dir, "target")}
	j.meter = measure.Runner{Sample: sampleRate, Timeout: o.timeout}
	if row.Kind == rows.Memory {
		j.meter.Sample = sampleMemory
	}
	if err := j.makeSources(); err != nil {
		return nil, err
	}
	if err := j.makeOld(); err != nil {
		return nil, err
	}
	config := sshd.Config{Cipher: row.Cipher}
	if row.OnPath && o.usftp != "" {
		config.Programs = filepath.Dir(o.usftp)
	}
	if row.Link != nil {
		link, err := wan.New(wan.Config{RTT: row.Link.RTT, Rate: row.Link.Rate,
			Flow: row.Link.Flow, Loss: row.Link.Loss})
		if err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, link.Close()) }()
		j.link, j.far = link, link.Server
		config.Address, config.Port, config.Start = wan.ServerAddress.String(), longPort,
			link.Server.Start
		j.meter.Start = link.Client.Start
	}
	if j.server, err = sshd.Start(config); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, j.server.Close()) }()

	contestants := j.present()
	if slices.ContainsFunc(contestants, func(c rows.Contestant) bool {
		return row.Apart[c.Name].AtUsftp
	}) {
		if j.ours, err = startUsftp(j.usftp, j.server, j.far); err != nil {
			return nil, err
		}
		defer j.ours.close()
	}
	return takeTurns(ctx, o.runs, contestants, j.run, keep)
}

// takeTurns runs every contestant once in each round, and hands each run to keep as soon as it is
// known.
//
// Each round has an order of its own, the same in every session. Some contestants keep the machine
// busy after their end, for example while what scp -r made is removed; whoever is next pays for
// that.
func takeTurns[C any](ctx context.Context, rounds int, contestants []C,
	run func(C, int) (result.Run, error), keep func(result.Run) error) (runs []result.Run,
	err error) {
	for round := 1; round <= rounds; round++ {
		order := slices.Clone(contestants)
		random := rand.New(rand.NewPCG(uint64(round), 7))
		random.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
		for _, contestant := range order {
			if err := ctx.Err(); err != nil {
				return runs, err
			}
			one, err := run(contestant, round)
			if err != nil {
				return runs, fmt.Errorf("%s: %w", one.Contestant, err)
			}
			runs = append(runs, one)
			if err := keep(one); err != nil {
				return runs, err
			}
		}
	}
	return runs, nil
}

// present leaves out who is not on this machine or not in this build.
func (j *job) present() []rows.Contestant {
	var here []rows.Contestant
	for _, contestant := range j.row.Contestants {
		var err error
		program := contestant.Program
		if j.row.Apart[contestant.Name].AtUsftp && j.usftp == "" {
			program = rows.UsftpProgram
		}
		switch program {
		case rows.UsftpProgram:
			if j.usftp == "" {
				err = errors.New("no -usftp given")
			}
		case rows.BenchProgram:
			_, err = library.Named(contestant.Name)
		default:
			_, err = exec.LookPath(program)
		}
		if err != nil {
			fmt.Fprintf(os.Stderr, "    without %s: %v\n", contestant.Name, err)
			continue
		}
		here = append(here, contestant)
	}
	return here
}

func (j *job) run(contestant rows.Contestant, round int) (result.Run, error) {
	run := result.Run{Row: j.row.Name, Contestant: contestant.Name, Command: contestant.Command,
		Round: round, Bytes: j.row.Total(contestant.Name)}
	if err := j.resetTarget(); err != nil {
		return run, err
	}
	apart := j.row.Apart[contestant.Name]
	if err := j.age(apart); err != nil {
		return run, err
	}
	if apart.Beside != "" {
		end, err := j.serveBeside(apart)
		if err != nil {
			return run, err
		}
		defer end()
	}
	access, processor := j.server.Access, j.server.Processor
	if apart.AtUsftp {
		access, processor = j.ours.access, j.ours.processor
	}
	var proxy *turns.Proxy
	if j.row.Kind == rows.FirstByte || j.row.Kind == rows.Login {
		var err error
		proxy, err = turns.Listen(turns.Config{Target: net.JoinHostPort(access.Address,
			access.Port), RTT: firstByteRTT,
			Upload: j.row.Upload, Mark: firstByteMark})
		if err != nil {
			return run, err
		}
		if access, err = j.server.Via("127.0.0.1", strconv.Itoa(proxy.Port())); err != nil {
			return run, err
		}
	}
	before, err := processor()
	if err != nil {
		return run, err
	}
	if j.meter.Environment, err = j.environment(access); err != nil {
		return run, err
	}
	carried := j.carried()
	figures, err := j.meter.Run(contestant.Command)
	run.Carried = j.carried() - carried
	if proxy != nil {
		level, count := proxy.Level(), proxy.Close()
		run.RoundTrips, run.Connections = count.RoundTrips, count.Connections
		if j.row.Kind == rows.Login {
			run.RoundTrips = level
		} else if !count.Reached && figures.Failure == "" {
			figures.Failure = "no bytes of the file were seen on the wire"
		}
	}
	if err != nil {
		return run, err
	}
	after, err := processor()
	if err != nil {
		return run, err
	}
	record(&run, figures, after-before)
	if j.row.TellsOwn && run.Failure == "" {
		if run.Seconds, err = j.readTook(); err != nil {
			return run, err
		}
	}
	if run.Failure == "" && !apart.NoFile && j.row.Kind != rows.Login {
		if err := j.compare(apart); err != nil {
			run.Failure = err.Error()
		}
	}
	return run, nil
}

// carried returns how many bytes the row's link has carried so far.
func (j *job) carried() int64 {
	if j.link == nil {
		return 0
	}
	return j.link.Carried()
}

// took is where a command tells how long its job took.
func (j *job) took() string { return j.target + ".took" }

func (j *job) readTook() (float64, error) {
	text, err := os.ReadFile(j.took())
	if err != nil {
		return 0, err
	}
	return strconv.ParseFloat(string(bytes.TrimSpace(text)), 64)
}

// record fills a run with the figures of its command and the server's processor time.
func record(run *result.Run, figures measure.Figures, server time.Duration) {
	run.Seconds, run.User, run.System = figures.Seconds, figures.User, figures.System
	run.PeakKiB, run.Busiest = figures.PeakKiB, figures.Busiest
	run.Server, run.ServerWhole = server.Seconds(), true
	run.Failure = figures.Failure
}

func (j *job) environment(access sshd.Access) ([]string, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	return []string{
		"SRC=" + j.source, "PART=" + j.part, "DST=" + j.target, "CONFIG=" +
			access.ClientConfig, "ADDRESS=" + access.Address,
		"PORT=" + access.Port, "USER=" + access.User, "KEY=" + access.Key, "KNOWN_HOSTS=" +
			access.KnownHosts,
		"BENCH=" + self, "USFTP=" + j.usftp, "TOOK=" + j.took(),
	}, nil
}

// makeSource fills the source with incompressible data, or leaves it a hole.
func makeSource(name string, size int64, sparse bool) error {
	file, err := os.Create(name)
	if err != nil {
		return err
	}
	if sparse {
		err = file.Truncate(size)
	} else {
		_, err = io.CopyBuffer(file, io.LimitReader(rand.NewChaCha8([32]byte{1}), size),
			make([]byte, 1<<20))
	}
	return errors.Join(err, file.Close())
}

var errDiffers = errors.New("the target is not the source")

// same compares a target with its source, byte by byte.
func same(source, target string) error {
	want, err := os.Open(source)
	if err != nil {
		return err
	}
	defer want.Close()
	got, err := os.Open(target)
	if err != nil {
		return errors.New("the target cannot be read")
	}
	defer got.Close()
	var buffers [2][1 << 18]byte
	for {
		n, wantErr := io.ReadFull(want, buffers[0][:])
		m, gotErr := io.ReadFull(got, buffers[1][:])
		switch {
		case !bytes.Equal(buffers[0][:n], buffers[1][:m]) || wantErr != gotErr:
			return errDiffers
		case wantErr == io.EOF || wantErr == io.ErrUnexpectedEOF:
			return nil
		case wantErr != nil:
			return wantErr
		}
	}
}
