package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/usftp/usftp/bench/rows"
)

const (
	oldPlaces = 100
	oldFront  = 1 << 20
)

// makeOld makes the older version of the source, if the row has one.
func (j *job) makeOld() error {
	switch j.row.Old {
	case rows.None, rows.Equal:
		return nil
	}
	skip := int64(0)
	if j.row.Old == rows.Front {
		skip = min(oldFront, j.row.Bytes/2)
	}
	source, err := os.Open(j.source)
	if err != nil {
		return err
	}
	defer source.Close()
	file, err := os.Create(j.old)
	if err != nil {
		return err
	}
	if _, err = source.Seek(skip, io.SeekStart); err == nil {
		_, err = io.Copy(file, source)
	}
	if j.row.Old == rows.Places {
		random := rand.New(rand.NewPCG(3, 3))
		place := make([]byte, max(1, j.row.Bytes/oldPlaces/100))
		content := rand.NewChaCha8([32]byte{3})
		for range oldPlaces {
			content.Read(place)
			if err == nil {
				_, err = file.WriteAt(place, random.Int64N(j.row.Bytes-int64(len(place))+1))
			}
		}
	}
	err = errors.Join(err, file.Close())
	if yesterday := time.Now().AddDate(0, 0, -1); err == nil {
		err = os.Chtimes(j.old, yesterday, yesterday)
	}
	return err
}

// age gives the source the age that it is to have before a run, where that makes a difference.
func (j *job) age(apart rows.Apart) error {
	if j.row.Young() == "" {
		return nil
	}
	when := time.Now()
	if !apart.Young {
		when = when.Add(-time.Hour)
	}
	return filepath.WalkDir(j.source, func(name string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return os.Chtimes(name, when, when)
	})
}

// resetTarget restores the target before a run.
func (j *job) resetTarget() error {
	from := j.old
	if j.row.Old == rows.Equal {
		if _, err := os.Stat(j.target); err == nil {
			return nil // a run that was right has changed nothing
		}
		from = j.source
	} else if err := os.RemoveAll(j.target); err != nil || j.row.Old == rows.None {
		return err
	}
	if out, err := exec.Command("cp", "-a", from, j.target).CombinedOutput(); err != nil {
		return fmt.Errorf("cp -a: %w: %s", err, out)
	}
	return nil
}
