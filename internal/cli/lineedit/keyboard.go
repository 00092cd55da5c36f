package lineedit

import (
	"context"
	"io"
)

// A keyboard gives one key after another. It reads on another goroutine, so that something else can
// wake the editor, and reads only while a key is waited for: between two lines the terminal belongs
// to whoever else reads it.
type keyboard struct {
	in   io.Reader
	wake chan struct{}

	asked bool // a Read is under way
	reads chan read
	bytes []byte // that were read and are no key yet
}

type read struct {
	bytes []byte
	err   error
}

// maxKeys is the most that is read at once, and a paste that has no end is given up.
const maxKeys = 64 << 10

// next waits for a key, or for a wake-up.
func (k *keyboard) next(ctx context.Context) (pressed key, woken bool, err error) {
	for {
		pressed, n := decode(k.bytes)
		if n == 0 && len(k.bytes) > maxKeys {
			k.bytes = nil
		}
		if n > 0 {
			k.bytes = k.bytes[n:]
			if pressed.command == unknown {
				continue
			}
			return pressed, false, nil
		}
		k.ask()
		select {
		case r := <-k.reads:
			k.asked = false
			k.bytes = append(k.bytes, r.bytes...)
			if r.err != nil {
				return key{}, false, r.err
			}
		case <-k.wake:
			return key{}, true, nil
		case <-ctx.Done():
			return key{}, false, context.Cause(ctx)
		}
	}
}

// ready reports whether there is a key that was read already: the line need not be shown before it.
func (k *keyboard) ready() bool {
	_, n := decode(k.bytes)
	return n > 0
}

// ask has some keys read, unless that is under way.
func (k *keyboard) ask() {
	if k.asked {
		return
	}
	if k.reads == nil {
		k.reads = make(chan read, 1)
	}
	k.asked = true
	go func() {
		b := make([]byte, maxKeys)
		n, err := k.in.Read(b)
		if n > 0 {
			err = nil // it comes again
		}
		k.reads <- read{b[:n], err}
	}()
}
