// Package library puts the client libraries that are compared behind one pair of interfaces, so
// that every benchmark drives all of them with the same code.
package library

import (
	"fmt"
	"io"
	"strings"

	"golang.org/x/crypto/ssh"
)

// File has the methods of an open remote file that the benchmarks use.
type File interface {
	io.ReadWriteCloser
	io.ReaderAt
	io.WriterAt
	io.ReaderFrom
	io.WriterTo
}

// Client has the methods of a connected client that the benchmarks use.
type Client interface {
	Open(path string) (File, error)
	Create(path string) (File, error)
	Close() error
}

// Library is one contestant: a library with one choice of its settings.
type Library struct {
	// Name is short and without a slash, because it becomes part of benchmark names.
	Name string
	// Settings says in words how the client is configured.
	Settings string
	OverPipe func(io.Reader, io.WriteCloser) (Client, error)
	OverSSH  func(*ssh.Client) (Client, error)
}

// The names of pkg/sftp as it comes, and at its best settings.
const (
	DefaultName = "pkgsftp-default"
	BestName    = "pkgsftp-best"
)

// All returns every contestant that this build holds, peers first.
func All() []Library {
	return append([]Library{Default.Library(DefaultName), pkgSFTP(BestName, BestPipe, BestSSH)},
		ours()...)
}

// Named returns the contestant of that name.
func Named(name string) (Library, error) {
	var names []string
	for _, library := range All() {
		if library.Name == name {
			return library, nil
		}
		names = append(names, library.Name)
	}
	return Library{}, fmt.Errorf("no library named %q in this build; there are: %s", name,
		strings.Join(names, ", "))
}
