package bigconn

import (
	"net"
	"sync"
	"time"
)

// writer gathers writes while others are under way. x/crypto/ssh makes two or three of every
// packet; written together, several packets take one system call, and the next are encrypted
// meanwhile.
type writer struct {
	conn net.Conn
	pool *Pool

	mu      sync.Mutex
	change  sync.Cond // space, an error, or nothing left to write
	buf     *[]byte   // what is gathered; nil without any
	n       int
	writing bool // somebody writes
	closed  bool
	err     error

	held    int         // how many have said that more is to come
	timer   *time.Timer // for what is held
	ticking bool
	moved   bool      // something was gathered or written since the timer last ran
	freely  time.Time // nothing is held before that
}

// short is less than what bufio writes when its buffer is full: a shorter write is the end of
// something, which somebody waits for.
const short = 4096

// write gathers p, or writes it when it is short and nothing is under way. It waits while there is
// no room.
func (w *writer) write(p []byte) (done int, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(p) < short && !w.writing && w.held == 0 && w.err == nil && !w.closed {
		return w.writeNow(p)
	}
	for len(p) > 0 {
		for w.err == nil && !w.closed && w.n == Size {
			if w.writing {
				w.change.Wait()
			} else {
				w.writeGathered()
			}
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
		switch {
		case w.writing:
		case w.held == 0:
			w.writing = true
			go w.flush()
		default:
			w.watch()
		}
	}
	return done, nil
}

const (
	// holdTime bounds how long something is held, about.
	holdTime = 10 * time.Millisecond

	// freeTime is how long nothing is held after something was held for too long.
	freeTime = time.Second
)

// hold has what is written gathered until there is no room, or release. Then the goroutine that
// writes makes the system call itself, which saves waking another for it. False means that nothing
// is held, and not to be released.
//
// Whoever holds may get stuck, waiting for a peer with a small window, which waits for what is
// held. A timer sees that, and then it goes without holding for a while.
func (w *writer) hold() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.freely.IsZero() && time.Now().Before(w.freely) {
		return false
	}
	w.held++
	return true
}

// watch has the timer look at what is held. It runs on through a row of holds, since to set it for
// each would cost more.
func (w *writer) watch() {
	w.moved = true
	if w.ticking {
		return
	}
	w.ticking = true
	if w.timer == nil {
		w.timer = time.AfterFunc(holdTime, w.tick)
	} else {
		w.timer.Reset(holdTime)
	}
}

// tick lets go what has been held, and nothing added to it, since it last ran.
func (w *writer) tick() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ticking = w.moved && !w.closed && w.err == nil
	if w.ticking {
		w.moved = false
		w.timer.Reset(holdTime)
	} else if w.n > 0 && !w.writing && w.err == nil {
		w.freely = time.Now().Add(freeTime)
		w.writing = true
		go w.flush()
	}
}

// release ends a hold, and writes what was gathered unless others hold on or somebody writes
// already.
func (w *writer) release() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.held--; w.held > 0 || w.writing || w.n == 0 || w.err != nil {
		return
	}
	w.writeGathered()
}

// writeGathered makes one system call of what there is. What comes meanwhile is left to another
// goroutine, as the caller has work of its own. The caller holds the lock.
func (w *writer) writeGathered() {
	w.writing, w.moved = true, true
	w.writeOnce()
	if w.n > 0 && w.held == 0 && w.err == nil {
		go w.flush()
		return
	}
	w.writing = false
	w.change.Broadcast()
}

// writeOnce writes what there is; the caller holds the lock and has said that it writes.
func (w *writer) writeOnce() {
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
		w.writeOnce()
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
	if w.timer != nil {
		w.timer.Stop()
	}
	if w.n > 0 && !w.writing && w.err == nil {
		w.writing = true
		go w.flush()
	}
	if !w.writing {
		return
	}
	timer := time.AfterFunc(lastWords, func() { w.conn.Close() })
	defer timer.Stop()
	for w.writing {
		w.change.Wait()
	}
}
