package localfs

import "os"

// A NamelessFile is a temporary file without a name: nobody else can open it, and a process that is
// killed leaves nothing behind. On Windows, which removes no open file, it has a name until Close.
type NamelessFile struct {
	*os.File
	named bool
}

// NewNamelessFile makes a file whose name has the pattern of [os.CreateTemp] for as long as it has
// one.
func NewNamelessFile(pattern string) (*NamelessFile, error) {
	f, err := os.CreateTemp("", pattern)
	if err != nil {
		return nil, err
	}
	return &NamelessFile{f, os.Remove(f.Name()) != nil}, nil
}

// Close also removes the file.
func (f *NamelessFile) Close() error {
	err := f.File.Close()
	if f.named {
		os.Remove(f.Name())
	}
	return err
}
