package site

import (
	"errors"
	"io/fs"
	"os"
	"sync"
	"time"
)

const (
	// reachPatience is how long a start, a reload or a login waits for one directory.
	reachPatience = 5 * time.Second

	// leastPatience is how long it does if many others do not answer: hundreds of users may have
	// theirs on one file server.
	leastPatience = 100 * time.Millisecond
)

var errHangs = errors.New("its disk or file server does not answer")

// looks has the looks that are not answered, by name. It is one for the process: each takes a thread
// until the file server answers, and there must not be one more for each login.
var looks struct {
	sync.Mutex
	at map[string]*look
}

type look struct {
	until time.Time // it hangs if it is not answered by then
	done  chan struct{}
	info  fs.FileInfo
	err   error
}

// Reach is os.Stat, but fails if a file server does not answer: the directory of one user must not
// keep the server from starting, reloading or ending, and so from everybody else.
func Reach(name string) (fs.FileInfo, error) { return reach(name, os.Stat) }

func reach(name string, stat func(string) (fs.FileInfo, error)) (fs.FileInfo, error) {
	for {
		l, joined := lookAt(name, stat)
		late := time.NewTimer(time.Until(l.until))
		select {
		case <-l.done:
			late.Stop()
			if joined && l.err != nil { // the directory may have been made since it began
				continue
			}
			return l.info, l.err
		case <-late.C:
			return nil, &fs.PathError{Op: "stat", Path: name, Err: errHangs}
		}
	}
}

// lookAt begins a look, or joins the one that is not answered.
func lookAt(name string, stat func(string) (fs.FileInfo, error)) (l *look, joined bool) {
	looks.Lock()
	defer looks.Unlock()
	if l = looks.at[name]; l != nil {
		return l, true
	}
	now, patience := time.Now(), reachPatience
	for _, other := range looks.at {
		if !now.Before(other.until) {
			patience = max(patience/2, leastPatience)
		}
	}
	l = &look{until: now.Add(patience), done: make(chan struct{})}
	if looks.at == nil {
		looks.at = make(map[string]*look)
	}
	looks.at[name] = l
	go func() {
		l.info, l.err = stat(name)
		looks.Lock()
		delete(looks.at, name)
		looks.Unlock()
		close(l.done)
	}()
	return l, false
}
