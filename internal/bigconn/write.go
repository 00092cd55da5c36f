package bigconn

import (
	"net"
	"sync"
	"time"
)

// writer gathers writes while others are under way. x/crypto/ssh makes two or three of every packet; written together,
// several packets take one system call, and the next are encrypted meanwhile.
type writer struct {
	conn net.Conn
	pool *Pool

	mu      sync.Mutex
	change  sync.Cond // space, an error, or nothing left to write
	buf     *[]byte   // what is gathered; nil without any
	n       int
	writing bool // flush runs
	closed  bool
	err     error
}

// short is less than what bufio writes when its buffer is full: a shorter write is the end of something, which somebody
// waits for.
const short = 4096

// write gathers p, or writes it when it is short and nothing is under way. It waits while there is no room.
func (w *writer) write(p []byte) (done int, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(p) < short && !w.writing && w.err == nil && !w.closed {
		return w.writeNow(p)
	}
	for len(p) > 0 {
		for w.err == nil && !w.closed && w.n == Size {
			w.change.Wait()
		}
		if w.err != nil {
			return done, w.err
		}
		if w.closed {
			return done, net.ErrClosed
		}
		if w.buf == nil {
			w.buf = w.pool.get()
		}
		n := copy((*w.buf)[w.n:], p)
		w.n += n
		done += n
		p = p[n:]
		if !w.writing {
			w.writing = true
			go w.flush()
		}
	}
	return done, nil
}

// writeNow writes without another goroutine; the caller holds the lock.
func (w *writer) writeNow(p []byte) (n int, err error) {
	w.writing = true
	w.mu.Unlock()
	n, err = w.conn.Write(p)
	w.mu.Lock()
	if err != nil {
		w.err = err
	}
	if w.n > 0 && err == nil {
		go w.flush() // of what was gathered meanwhile
	} else {
		w.writing = false
		w.change.Broadcast()
	}
	return n, err
}

// flush writes until nothing is left.
func (w *writer) flush() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for w.n > 0 && w.err == nil {
		buf, n := w.buf, w.n
		w.buf, w.n = nil, 0
		w.change.Broadcast()
		w.mu.Unlock()
		_, err := w.conn.Write((*buf)[:n])
		w.pool.put(buf)
		w.mu.Lock()
		if err != nil {
			w.err = err
		}
	}
	w.writing = false
	w.change.Broadcast()
}

// lastWords is how long Close waits for what was written before it.
const lastWords = time.Second

// close lets what was written go out, if the peer takes it soon.
func (w *writer) close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return
	}
	w.closed = true
	w.change.Broadcast()
	if !w.writing {
		return
	}
	timer := time.AfterFunc(lastWords, func() { w.conn.Close() })
	defer timer.Stop()
	for w.writing {
		w.change.Wait()
	}
}
