package main

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/usftp/usftp/bench/rows"
)

// perDirectory is how many files each directory of a tree usually has.
const perDirectory = 100

// makeSources makes the files that the row's contestants copy.
func (j *job) makeSources() error {
	if j.row.Files == 0 {
		return makeSource(j.source, j.row.Bytes, j.row.Sparse)
	}
	err := makeTree(j.source, j.row.Files, cmp.Or(j.row.Each, perDirectory), j.row.Bytes)
	for _, apart := range j.row.Apart {
		if apart.Files > 0 && err == nil {
			err = makeTree(j.part, apart.Files, perDirectory, j.row.Bytes)
		}
	}
	return err
}

func makeTree(name string, files, each int, size int64) error {
	random := rand.NewChaCha8([32]byte{2})
	content := make([]byte, size)
	for i := range files {
		dir := filepath.Join(name, fmt.Sprintf("d%05d", i/each))
		if i%each == 0 {
			if err := os.MkdirAll(dir, 0o755); err != nil {
				return err
			}
		}
		random.Read(content)
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("f%05d", i)), content,
			0o644); err != nil {
			return err
		}
	}
	return nil
}

// compare compares a contestant's copy with its source.
func (j *job) compare(apart rows.Apart) error {
	if j.row.Files == 0 {
		return same(j.source, j.target)
	}
	source, files := j.source, j.row.Files
	if apart.Files > 0 {
		source, files = j.part, apart.Files
	}
	found := 0
	err := filepath.WalkDir(j.target, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		found++
		rel, err := filepath.Rel(j.target, path)
		if err != nil {
			return err
		}
		return same(filepath.Join(source, rel), path)
	})
	if err == nil && found != files {
		err = fmt.Errorf("%d files were copied and not %d", found, files)
	}
	return err
}

// besidePatience is how long the far end of a contestant may take to listen.
const besidePatience = 10 * time.Second

// serveBeside starts the far end of a contestant that brings its own.
func (j *job) serveBeside(apart rows.Apart) (end func(), err error) {
	if j.far == nil {
		return nil, errors.New("only the far end of a long link can serve")
	}
	cmd := exec.Command("sh", "-c", "exec "+apart.Beside+" >/dev/null")
	if err := j.far.Start(cmd); err != nil {
		return nil, err
	}
	end = func() {
		cmd.Process.Kill()
		cmd.Wait()
	}
	if err := j.far.AwaitListener(apart.Port, besidePatience); err != nil {
		end()
		return nil, err
	}
	return end, nil
}
