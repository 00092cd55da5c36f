package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/minio/minio-go/v7"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/bench/measure"
	"github.com/usftp/usftp/bench/result"
	"github.com/usftp/usftp/bench/rows"
	"github.com/usftp/usftp/bench/servers"
)

// runObjects compares jobs on files in object storage: the rows of rows.Objects.
func runObjects(ctx context.Context, o options, selected []rows.ObjectRow,
	keep func(result.Run) error) error {
	for _, row := range selected {
		fmt.Printf("\n%s: %s\n", row.Name, row.Title)
		runs, err := objectRow(ctx, o, row, keep)
		var names []string
		for _, c := range row.Contestants {
			names = append(names, c.Name())
		}
		fmt.Print(table(names, runs))
		for _, run := range runs {
			if run.EndKiB > 0 {
				fmt.Printf("    %s keeps %d KiB of %d\n", run.Contestant, run.EndKiB, run.Bytes>>11)
			}
		}
		if err != nil {
			return fmt.Errorf("row %s: %w", row.Name, err)
		}
	}
	return nil
}

// objectBench has the storage, which all contestants of a row share.
type objectBench struct {
	o       options
	row     rows.ObjectRow
	dir     string
	rig     *servers.Rig
	storage *servers.Storage
	core    *minio.Core
	servers map[string]*servers.Server
	nodes   map[string][]*servers.Server
	meter   measure.Runner
}

func objectRow(ctx context.Context, o options, row rows.ObjectRow,
	keep func(result.Run) error) (runs []result.Run, err error) {
	b := &objectBench{o: o, row: row, servers: map[string]*servers.Server{},
		nodes: map[string][]*servers.Server{},
		meter: measure.Runner{Sample: sampleRate, Timeout: o.timeout}}
	if b.dir, err = os.MkdirTemp(o.dir, "usftp-bench-"); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(b.dir)) }()
	if b.rig, err = servers.NewRig(servers.Config{Dir: b.dir, Usftpd: o.usftpd}); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, b.rig.Close()) }()
	if row.Work == rows.Logins {
		return b.logins(ctx, keep)
	}
	if b.storage, err = b.rig.StartStorage(); err != nil {
		return nil, skip(err)
	}
	defer func() { err = errors.Join(err, b.storage.Close()) }()
	if b.core, err = openMinio(b.storage.Endpoint); err != nil {
		return nil, err
	}
	if err := b.prepare(ctx); err != nil {
		return nil, err
	}
	defer func() {
		for _, server := range b.servers {
			err = errors.Join(err, server.Close())
		}
	}()
	contestants, err := b.present()
	if err != nil {
		return nil, err
	}
	return takeTurns(ctx, o.runs, contestants,
		func(c rows.ObjectContestant, round int) (result.Run, error) {
			return b.run(ctx, c, round)
		}, keep)
}

// skip says that something is not on this machine, and makes no error of it.
func skip(err error) error {
	if errors.Is(err, servers.ErrAbsent) {
		fmt.Fprintln(os.Stderr, "    left out:", err)
		return nil
	}
	return err
}

// prepare makes the objects to fetch and list. An object of the listing is a file that the storage
// finds, since a request for each would take minutes.
func (b *objectBench) prepare(ctx context.Context) error {
	source := filepath.Join(b.dir, "source")
	if b.row.Bytes > 0 {
		if err := makeSource(source, b.row.Bytes, false); err != nil {
			return err
		}
		if err := minioPut(ctx, b.core, b.storage.Bucket, servers.StoragePrefix+"source",
			source); err != nil {
			return err
		}
	}
	if b.row.Names == 0 {
		return nil
	}
	many := filepath.Join(b.storage.Dir, "many")
	if err := os.Mkdir(many, 0o755); err != nil {
		return err
	}
	for i := range b.row.Names {
		if err := os.WriteFile(filepath.Join(many, fmt.Sprintf("name-%06d", i)), nil,
			0o644); err != nil {
			return err
		}
	}
	return nil
}

// present starts the servers of the row, and leaves out the contestants whose server is not here.
func (b *objectBench) present() (here []rows.ObjectContestant, err error) {
	for _, c := range b.row.Contestants {
		if c.Server != rows.Minio && b.servers[c.Server] == nil {
			s, err := b.rig.StartOn(c.Server, b.storage)
			if errors.Is(err, servers.ErrAbsent) {
				fmt.Fprintf(os.Stderr, "    without %s: %v\n", c.Server, err)
				continue
			}
			if err != nil {
				return nil, err
			}
			b.servers[c.Server] = s
		}
		here = append(here, c)
	}
	return here, nil
}

func (b *objectBench) run(ctx context.Context, c rows.ObjectContestant,
	round int) (run result.Run, err error) {
	run = result.Run{Row: b.row.Name, Contestant: c.Name(), Command: c.Command, Round: round,
		Bytes: b.row.Bytes, Sessions: b.row.Sessions}
	server := b.servers[c.Server]
	var before time.Duration
	if err := b.ready(c); err != nil {
		return run, err
	}
	if server != nil {
		if before, err = server.Processor(); err != nil {
			return run, err
		}
	}
	switch b.row.Work {
	case rows.Abandons:
		err = b.abandons(ctx, server, &run)
	case rows.Trickles:
		run.Bytes *= int64(b.row.Sessions)
		err = b.trickles(ctx, server, &run)
	default:
		err = b.command(c, before, &run)
	}
	if err != nil {
		return run, err
	}
	if server != nil {
		after, err := server.Processor()
		if err != nil {
			return run, err
		}
		run.Server, run.ServerWhole = (after - before).Seconds(), true
	}
	return run, b.clean(ctx)
}

// ready sets the variables of the commands, and runs what comes before the one that is measured.
func (b *objectBench) ready(c rows.ObjectContestant) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	b.meter.Environment = []string{"HERE=" + b.dir, "BENCH=" + self,
		"ENDPOINT=" + b.storage.Endpoint, "BUCKET=" + b.storage.Bucket}
	if server := b.servers[c.Server]; server != nil {
		b.meter.Environment = append(b.meter.Environment, "CONFIG="+server.ClientConfig)
	}
	if c.Before == "" {
		return nil
	}
	figures, err := b.meter.Run(c.Before + " >/dev/null")
	if err == nil && figures.Failure != "" {
		err = fmt.Errorf("%s: %s", c.Before, figures.Failure)
	}
	return err
}

// command runs the command of a contestant, and checks its files or its output.
func (b *objectBench) command(c rows.ObjectContestant, before time.Duration,
	run *result.Run) error {
	said := filepath.Join(b.dir, "said")
	figures, err := b.meter.Run(c.Command + ` >"$HERE/said"`)
	if err != nil {
		return err
	}
	record(run, figures, 0)
	if run.Failure != "" {
		return nil
	}
	if b.row.Names > 0 {
		text, err := os.ReadFile(said)
		if got := bytes.Count(text, []byte("name-")); got != b.row.Names {
			run.Failure = fmt.Sprintf("%d names instead of %d", got, b.row.Names)
		}
		return err
	}
	target := filepath.Join(b.dir, "target")
	if _, err := os.Stat(target); errors.Is(err, fs.ErrNotExist) {
		target = filepath.Join(b.storage.Dir, "target")
	}
	if err := same(filepath.Join(b.dir, "source"), target); err != nil {
		run.Failure = err.Error()
	}
	return nil
}

// clean removes the files of a run, here and in the storage, and its unfinished uploads.
func (b *objectBench) clean(ctx context.Context) error {
	if err := os.RemoveAll(filepath.Join(b.dir, "target")); err != nil {
		return err
	}
	for o := range b.core.Client.ListObjects(ctx, b.storage.Bucket, minio.ListObjectsOptions{
		Prefix: servers.StoragePrefix}) {
		if o.Err != nil {
			return o.Err
		}
		if name := o.Key[len(servers.StoragePrefix):]; name == "source" || name == "many/" {
			continue
		}
		if err := b.core.RemoveObject(ctx, b.storage.Bucket, o.Key,
			minio.RemoveObjectOptions{}); err != nil {
			return err
		}
	}
	for o := range b.core.ListIncompleteUploads(ctx, b.storage.Bucket, servers.StoragePrefix, true) {
		if o.Err != nil {
			return o.Err
		}
		if err := b.core.AbortMultipartUpload(ctx, b.storage.Bucket, o.Key,
			o.UploadID); err != nil {
			return err
		}
	}
	return nil
}

// abandons has clients write half of a file in place of another one, and of a new one, and go away.
// It fails if anything of that appears; run tells how much of the new one is kept.
func (b *objectBench) abandons(ctx context.Context, server *servers.Server,
	run *result.Run) error {
	source, err := os.Open(filepath.Join(b.dir, "source"))
	if err != nil {
		return err
	}
	defer source.Close()
	began := time.Now()
	for _, name := range []string{"source", fmt.Sprintf("new%d", run.Round)} {
		if err := b.writeHalf(server, "/"+name, source); err != nil {
			return err
		}
		if _, err := server.Processor(); err != nil { // once it has come to rest
			return err
		}
		got, err := os.Stat(filepath.Join(b.storage.Dir, name))
		switch {
		case name == "source" && (err != nil || got.Size() != b.row.Bytes):
			run.Failure = fmt.Sprintf("the old object is gone: %v", err)
		case name != "source" && err == nil:
			run.Failure = fmt.Sprintf("%d bytes of half a file have appeared", got.Size())
		}
	}
	run.Seconds = time.Since(began).Seconds()
	for o := range b.core.ListIncompleteUploads(ctx, b.storage.Bucket, servers.StoragePrefix, true) {
		if o.Err != nil {
			return o.Err
		}
		parts, err := b.core.ListObjectParts(ctx, b.storage.Bucket, o.Key, o.UploadID, 0, 1000)
		if err != nil {
			return err
		}
		for _, part := range parts.ObjectParts {
			run.EndKiB += part.Size >> 10
		}
	}
	return nil
}

// writeHalf writes the first half of a file, which has no end, and cuts the connection once all of
// it is acknowledged.
func (b *objectBench) writeHalf(server *servers.Server, name string, source io.ReaderAt) error {
	conn, err := server.Dial()
	if err != nil {
		return err
	}
	defer conn.Close()
	client, err := usftp.NewClient(conn)
	if err != nil {
		return err
	}
	file, err := client.Create(name)
	if err != nil {
		return err
	}
	_, err = file.ReadFrom(io.NewSectionReader(source, 0, b.row.Bytes/2))
	return err
}

// trickles has many sessions upload a file each, at a rate at which that takes rows.TrickleTime.
func (b *objectBench) trickles(ctx context.Context, server *servers.Server,
	run *result.Run) error {
	const pieces = 150
	began, watch := time.Now(), watchMemory(server)
	var all sync.WaitGroup
	failures := make(chan error, b.row.Sessions)
	for i := range b.row.Sessions {
		all.Go(func() {
			conn, err := server.Dial()
			if err != nil {
				failures <- err
				return
			}
			defer conn.Close()
			failures <- func() error {
				client, err := usftp.NewClient(conn)
				if err != nil {
					return err
				}
				file, err := client.Create(fmt.Sprintf("/slow%d", i))
				if err != nil {
					return err
				}
				tick := time.NewTicker(rows.TrickleTime / pieces)
				defer tick.Stop()
				random := rand.NewChaCha8([32]byte{byte(i)})
				for at := int64(0); at < b.row.Bytes; at += b.row.Bytes / pieces {
					piece := make([]byte, min(b.row.Bytes/pieces, b.row.Bytes-at))
					random.Read(piece)
					if _, err := file.WriteAt(piece, at); err != nil {
						return errors.Join(err, file.Close())
					}
					select {
					case <-tick.C:
					case <-ctx.Done():
						return ctx.Err()
					}
				}
				return file.Close()
			}()
		})
	}
	all.Wait()
	run.Seconds = time.Since(began).Seconds()
	run.PeakKiB = watch()
	close(failures)
	for err := range failures {
		if err != nil {
			run.Failure = err.Error()
		}
	}
	for i := range b.row.Sessions {
		if run.Failure == "" {
			run.Failure = b.isRandom(i)
		}
	}
	return nil
}

// isRandom describes the fault in the upload of a slow session, or returns "".
func (b *objectBench) isRandom(i int) string {
	got, err := os.ReadFile(filepath.Join(b.storage.Dir, fmt.Sprintf("slow%d", i)))
	want := make([]byte, b.row.Bytes)
	rand.NewChaCha8([32]byte{byte(i)}).Read(want)
	if err != nil || !bytes.Equal(got, want) {
		return fmt.Sprintf("slow upload %d is not what was sent: %v", i, err)
	}
	return ""
}

// logins compares nodes that share a store with one that has none.
func (b *objectBench) logins(ctx context.Context, keep func(result.Run) error) (runs []result.Run,
	err error) {
	users := make([]string, b.row.Sessions)
	for i := range users {
		users[i] = fmt.Sprintf("user%d", i)
	}
	postgres, url, err := b.rig.StartPostgres()
	if err != nil {
		return nil, skip(err)
	}
	defer func() { err = errors.Join(err, postgres.Close()) }()
	defer func() {
		for _, s := range slices.Concat(b.nodes[rows.OneNode], b.nodes[rows.ThreeNodes]) {
			err = errors.Join(err, s.Close())
		}
	}()
	for name, store := range map[string]string{rows.OneNode: "", rows.ThreeNodes: url} {
		count := 1
		if store != "" {
			count = 3
		}
		if b.nodes[name], err = b.rig.StartNodes(name, store, count, users); err != nil {
			return nil, skip(err)
		}
	}
	return takeTurns(ctx, b.o.runs, b.row.Contestants,
		func(c rows.ObjectContestant, round int) (result.Run, error) {
			return b.loginRun(ctx, c.Name(), users, round)
		}, keep)
}

// loginRun has each user log in, list the directory and leave.
func (b *objectBench) loginRun(ctx context.Context, name string, users []string,
	round int) (run result.Run, err error) {
	run = result.Run{Row: b.row.Name, Contestant: name, Round: round, Sessions: len(users)}
	nodes := b.nodes[name]
	processor := func() (sum time.Duration, err error) {
		for _, s := range nodes {
			one, oneErr := s.Processor()
			sum, err = sum+one, errors.Join(err, oneErr)
		}
		return sum, err
	}
	before, err := processor()
	if err != nil {
		return run, err
	}
	began := time.Now()
	const atOnce = 16
	var all sync.WaitGroup
	var mu sync.Mutex
	next := make(chan int)
	for range atOnce {
		all.Go(func() {
			for i := range next {
				if err := visit(nodes[i%len(nodes)], users[i]); err != nil {
					mu.Lock()
					run.Failure = fmt.Sprintf("%s: %v", users[i], err)
					mu.Unlock()
				}
			}
		})
	}
	for i := range users {
		next <- i
	}
	close(next)
	all.Wait()
	run.Seconds = time.Since(began).Seconds()
	after, err := processor()
	run.Server, run.ServerWhole = (after - before).Seconds(), true
	return run, err
}

// visit logs a user in, lists the directory, and leaves.
func visit(s *servers.Server, user string) error {
	access := s.Access
	access.User = user
	conn, err := access.Dial()
	if err != nil {
		return err
	}
	defer conn.Close()
	client, err := usftp.NewClient(conn)
	if err != nil {
		return err
	}
	_, err = client.Stat("/")
	return errors.Join(err, client.Close())
}
