package site

import (
	"errors"
	"io/fs"
	"os"
	"sync"
	"time"
)

// reachPatience is how long a start, a reload or a login waits for one directory.
const reachPatience = 5 * time.Second

var errHangs = errors.New("its disk or file server does not answer")

// hanging has the files that are still being looked at. It is one for the process: each look takes a
// thread until the file server answers, and there must not be one more for each login.
var hanging struct {
	sync.Mutex
	names map[string]bool
}

// Reach is os.Stat, but fails if a file server does not answer: the directory of one user must not
// keep the server from starting, reloading or ending, and so from everybody else.
func Reach(name string) (fs.FileInfo, error) { return reach(name, os.Stat) }

func reach(name string, stat func(string) (fs.FileInfo, error)) (fs.FileInfo, error) {
	type answer struct {
		info fs.FileInfo
		err  error
	}
	hangs := &fs.PathError{Op: "stat", Path: name, Err: errHangs}
	hanging.Lock()
	is := hanging.names[name]
	hanging.Unlock()
	if is {
		return nil, hangs
	}
	came := make(chan answer, 1)
	go func() {
		info, err := stat(name)
		hanging.Lock()
		defer hanging.Unlock()
		came <- answer{info, err}
		delete(hanging.names, name)
	}()
	late := time.NewTimer(reachPatience)
	defer late.Stop()
	select {
	case a := <-came:
		return a.info, a.err
	case <-late.C:
	}
	hanging.Lock()
	defer hanging.Unlock()
	select {
	case a := <-came:
		return a.info, a.err
	default:
	}
	if hanging.names == nil {
		hanging.names = map[string]bool{}
	}
	hanging.names[name] = true
	return nil, hangs
}
