package dial

import (
	"context"
	"io/fs"
	"os"
	"sync"
)

// KeyPipes keeps what was in files of keys, certificates and known hosts that are pipes, by name.
// The zero value is ready, for any number of dialers.
type KeyPipes struct{ kept sync.Map }

// A keyPipe is what was in a pipe, once it is read.
type keyPipe struct {
	read chan struct{}
	text []byte
	info fs.FileInfo
	err  error
}

// has reports whether a file is a pipe, or was one when it was read.
func (p *KeyPipes) has(path string) bool {
	if _, known := p.kept.Load(path); known {
		return true
	}
	fi, err := os.Stat(path)
	return err == nil && fi.Mode()&fs.ModeNamedPipe != 0
}

// read reads a pipe. One as from ssh -i <(program) can be read only once, and by one reader:
// another might wait for ever, or take a part. So what it held is kept for all logins. The program
// may write late, or never. No more than most bytes are read.
func (p *KeyPipes) read(ctx context.Context, path string, most int64) ([]byte, fs.FileInfo,
	error) {
	kept, known := p.kept.LoadOrStore(path, &keyPipe{read: make(chan struct{})})
	pipe := kept.(*keyPipe)
	if !known {
		go func() {
			defer close(pipe.read)
			if pipe.text, pipe.info, pipe.err = readSmall(path, most); pipe.err != nil {
				p.kept.Delete(path)
			}
		}()
	}
	select {
	case <-pipe.read:
		return pipe.text, pipe.info, pipe.err
	case <-ctx.Done():
		return nil, nil, context.Cause(ctx)
	}
}
