// Package demo is the verb demo.
package demo

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"fmt"
	"io"
	mathrand "math/rand/v2"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/usftp/usftp/cmd/usftp/internal/connect"
	"github.com/usftp/usftp/cmd/usftp/internal/cp"
	"github.com/usftp/usftp/cmd/usftp/internal/opt"
	"github.com/usftp/usftp/cmd/usftp/internal/report"
	"github.com/usftp/usftp/internal/ui"
	"github.com/usftp/usftp/pool"
	"github.com/usftp/usftp/transfer"
)

func Command(a *ui.App) *cobra.Command {
	return &cobra.Command{
		Use:   "demo",
		Short: "copy files to a temporary server and back, and measure the speed",
		Long:  long,
		Args:  ui.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return demo(cmd.Context(), a) },
	}
}

// demoRounds are the files to copy.
var demoRounds = []struct {
	files int
	size  int64
}{
	{1, 128_000_000},
	{200, 4_000},
}

func demo(ctx context.Context, a *ui.App) (err error) {
	dir, err := os.MkdirTemp("", "usftp-demo-")
	if err != nil {
		return fmt.Errorf("cannot make a directory for the demo's files: %s", err)
	}
	defer func() {
		if left := os.RemoveAll(dir); left != nil && err == nil {
			err = fmt.Errorf("cannot remove the demo's files: %s", left)
		}
	}()
	served := filepath.Join(dir, "server")
	if err := os.Mkdir(served, 0o700); err != nil {
		return err
	}
	server, err := startDemoServer(served)
	if err != nil {
		return err
	}
	defer server.close()
	fmt.Fprintf(a.Out, "A temporary SFTP server listens on %s. Copying there and back over SSH:\n",
		server.addr)
	d := &demoRun{dir: dir, server: server}
	d.Copier = cp.NewCopier(ctx, a, pool.ConnectConfig{Dial: server.clientConfig()},
		transfer.Options{}, report.New(a, &opt.Report{NoProgress: true}, report.Look{}))
	defer d.Hosts.Close()
	for i, round := range demoRounds {
		if err := d.round(fmt.Sprintf("round%d", i), round.files, round.size); err != nil {
			return err
		}
	}
	_, err = fmt.Fprintln(a.Out, "All files arrived intact. The temporary files are removed.")
	return err
}

// A demoRun copies files to the demo's server and back.
type demoRun struct {
	*cp.Copier
	dir    string
	server *demoServer
}

// round copies files of one size up, then down into another directory.
func (d *demoRun) round(name string, files int, size int64) error {
	from, back := filepath.Join(d.dir, name), filepath.Join(d.dir, name+"-back")
	for _, dir := range []string{from, back, filepath.Join(d.dir, "server", name)} {
		if err := os.Mkdir(dir, 0o700); err != nil {
			return err
		}
	}
	sums := make(map[string][]byte)
	var sources, copies []connect.Place
	for i := range files {
		base := fmt.Sprintf("file%03d", i)
		sum, err := randomFile(filepath.Join(from, base), size)
		if err != nil {
			return err
		}
		sums[base] = sum
		sources = append(sources, localPlace(filepath.Join(from, base)))
		copies = append(copies, d.server.place(name+"/"+base))
	}
	what := fmt.Sprintf("%d files of %s", files, ui.Amount(float64(size)))
	if files == 1 {
		what = "one file of " + ui.Amount(float64(size))
	}
	if err := d.way("up", what, sources, d.server.place(name), sums,
		filepath.Join(d.dir, "server", name)); err != nil {
		return err
	}
	return d.way("down", what, copies, localPlace(back), sums, back)
}

// way copies in one direction and checks the files that have arrived in the directory.
func (d *demoRun) way(name, what string, sources []connect.Place, target connect.Place,
	sums map[string][]byte, arrived string) error {
	before, began := d.Bytes, time.Now()
	d.Copy(sources, target)
	took := time.Since(began)
	if d.Code != ui.ExitOK {
		return &ui.ExitError{Code: d.Code}
	}
	for base, sum := range sums {
		got, err := sumOf(filepath.Join(arrived, base))
		if err != nil {
			return err
		}
		if !bytes.Equal(got, sum) {
			return fmt.Errorf("%s arrived with different contents", base)
		}
	}
	speed := ui.Rate(d.Bytes-before, took)
	if len(sums) > 1 {
		speed = fmt.Sprintf("%.0f files/s", float64(len(sums))/took.Seconds())
	}
	_, err := fmt.Fprintf(d.Out, "  %-4s  %-22s  %6.2f s  %13s  SHA-256 matches\n", name, what,
		took.Seconds(), speed)
	return err
}

func localPlace(path string) connect.Place { return connect.Place{Typed: path} }

// randomFile makes a file of incompressible bytes, and returns its hash.
func randomFile(path string, size int64) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var seed [32]byte
	rand.Read(seed[:])
	hash := sha256.New()
	source := io.LimitReader(mathrand.NewChaCha8(seed), size)
	if _, err := io.CopyBuffer(io.MultiWriter(f, hash), source,
		make([]byte, min(size, 256<<10))); err != nil {
		return nil, err
	}
	return hash.Sum(nil), f.Close()
}

func sumOf(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	hash := sha256.New()
	_, err = io.Copy(hash, f)
	return hash.Sum(nil), err
}
