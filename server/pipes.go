package server

import (
	"errors"
	"io"
	"os"

	"github.com/usftp/usftp/internal/bigpipe"
)

// Pipes makes a stream of two files, such as standard input and output, for [Serve]. Pipes are
// enlarged where the system allows it. Close closes both.
//
// On Linux the kernel moves data from files of the system ([FileInSystem]) into a pipe without
// copying it, for handles opened only for reading. If such a file is written to after a READ has
// been answered, but before the client has read the answer, the answer may show the new data.
func Pipes(in, out *os.File) io.ReadWriteCloser {
	bigpipe.Widen(in)
	bigpipe.Widen(out)
	return &pipes{in: in, out: out}
}

type pipes struct{ in, out *os.File }

func (p *pipes) Read(b []byte) (int, error)  { return p.in.Read(b) }
func (p *pipes) Write(b []byte) (int, error) { return p.out.Write(b) }
func (p *pipes) Close() error                { return errors.Join(p.in.Close(), p.out.Close()) }
