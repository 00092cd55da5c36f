// Package spill keeps lists that may become long.
package spill

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"io"
	"iter"
	"sync"

	"github.com/usftp/usftp/internal/localfs"
)

// A List is a list of records that may become long: what exceeds a little memory goes to a
// temporary file. Records are lists of strings.
type List struct {
	mu   sync.Mutex
	data []byte // not in the file yet
	file *localfs.NamelessFile
	n    int64 // records
	err  error
}

const (
	mostMemory = 64 << 10
	mostField  = 1 << 20 // longer than any path
	mostFields = 1 << 20
)

// Add adds a record. An error is returned by All.
func (s *List) Add(fields ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return
	}
	s.data = binary.AppendUvarint(s.data, uint64(len(fields)))
	for _, field := range fields {
		s.data = binary.AppendUvarint(s.data, uint64(len(field)))
		s.data = append(s.data, field...)
	}
	s.n++
	if len(s.data) < mostMemory {
		return
	}
	if s.file == nil {
		if s.file, s.err = localfs.NewNamelessFile("usftp-sync-"); s.err != nil {
			return
		}
	}
	_, s.err = s.file.Write(s.data)
	s.data = s.data[:0]
}

// All returns the records in the order in which they were added. Nothing may be added during the
// iteration.
func (s *List) All() iter.Seq2[[]string, error] {
	return func(yield func([]string, error) bool) {
		if s.err != nil {
			yield(nil, s.err)
			return
		}
		var r byteReader = bytes.NewReader(s.data)
		if s.file != nil {
			if _, err := s.file.Seek(0, io.SeekStart); err != nil {
				yield(nil, err)
				return
			}
			r = bufio.NewReaderSize(io.MultiReader(s.file, bytes.NewReader(s.data)), mostMemory)
		}
		for range s.n {
			fields, err := readRecord(r)
			if !yield(fields, err) || err != nil {
				return
			}
		}
	}
}

type byteReader interface {
	io.Reader
	io.ByteReader
}

func readRecord(r byteReader) (fields []string, err error) {
	count, err := binary.ReadUvarint(r)
	if err != nil || count > mostFields {
		return nil, io.ErrUnexpectedEOF
	}
	for range count {
		length, err := binary.ReadUvarint(r)
		if err != nil || length > mostField {
			return nil, io.ErrUnexpectedEOF
		}
		field := make([]byte, length)
		if _, err := io.ReadFull(r, field); err != nil {
			return nil, io.ErrUnexpectedEOF
		}
		fields = append(fields, string(field))
	}
	return fields, nil
}

// Close removes the temporary file.
func (s *List) Close() {
	if s.file != nil {
		s.file.Close()
	}
}
