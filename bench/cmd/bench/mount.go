package main

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"time"
)

// mountCommands mount $FAR, a directory of the host, at $AT, and return when it is there. rclone
// has no cache of contents, so that its close waits for the host as that of the others does.
var mountCommands = map[string]string{
	"sshfs": `sshfs -F "$CONFIG" "host:$FAR" "$AT"`,
	"rclone mount": `rclone --config /dev/null mount --daemon ":sftp,host=$ADDRESS,port=$PORT,user=$USER,` +
		`key_file=$KEY,known_hosts_file=$KNOWN_HOSTS,shell_type=unix:$FAR" "$AT"`,
	"usftp mount": `"$USFTP" mount -q -i "$KEY" -P "$PORT" -o UserKnownHostsFile="$KNOWN_HOSTS" ` +
		`"$USER@$ADDRESS:$FAR" "$AT"`,
}

// A mountedJob is a job on a mount, as commands of the shell.
type mountedJob struct {
	before string                // on the host, or here, without the clock
	warm   bool                  // it is done once before the clock runs
	run    string                // in the shell
	direct func(at string) error // or here
}

const gitStatus = `GIT_OPTIONAL_LOCKS=0 git -c safe.directory='*' -c core.checkStat=minimal -c core.trustctime=false -C "$AT/source" status >/dev/null`

// gitInit makes a checkout whose files are older than its index: git reads all that are not.
const gitInit = `cd "$SRC" && { [ -d .git ] || { git init -q . &&
	find . -type f -exec touch -d "1 hour ago" {} + && git add . &&
	git -c user.name=bench -c user.email=bench@localhost commit -qm files; }; }`

var mountedJobs = map[string]mountedJob{
	"cat":      {run: `cat "$AT/source" >/dev/null`},
	"cp":       {run: `cp "$SRC" "$AT/target"`},
	"ls":       {run: `ls -lR "$AT/source" >/dev/null`},
	"find":     {run: `find "$AT/source" >/dev/null`},
	"git-cold": {before: gitInit, run: gitStatus},
	"git-warm": {before: gitInit, warm: true, run: gitStatus},
	"tar":      {run: `mkdir "$AT/target" && tar -xf "$ARCHIVE" -C "$AT/target"`},
	"random": {direct: func(at string) error {
		return readRandomly(filepath.Join(at, "source"))
	}},
}

// mountMain mounts the directory of $SRC, does a job there, and writes how long it took to $TOOK.
// The login, mounting and unmounting do not count.
func mountMain(arguments []string) (err error) {
	if len(arguments) != 2 {
		return errors.New("usage: bench mount TOOL JOB")
	}
	mount, job := mountCommands[arguments[0]], mountedJobs[arguments[1]]
	if mount == "" || job.run == "" && job.direct == nil {
		return fmt.Errorf("no tool or job of that name: %q", arguments)
	}
	dir, err := os.MkdirTemp("", "usftp-bench-mount-")
	if err != nil {
		return err
	}
	at, archive := filepath.Join(dir, "at"), filepath.Join(dir, "archive.tar")
	defer func() {
		// Nothing is removed through a mount that is still there.
		if os.Remove(at) == nil {
			os.RemoveAll(dir)
		}
	}()
	source := os.Getenv("SRC")
	shell := func(command string) error {
		cmd := exec.Command("sh", "-ec", command)
		cmd.Env = append(os.Environ(), "FAR="+filepath.Dir(source), "AT="+at, "ARCHIVE="+archive,
			"XDG_STATE_HOME="+dir)
		cmd.Stderr = os.Stderr
		return cmd.Run()
	}
	if err := errors.Join(os.Mkdir(at, 0o755),
		writeArchive(archive, source, arguments[1])); err != nil {
		return err
	}
	if err := shell("true; " + job.before); err != nil {
		return err
	}
	if err := shell(mount); err != nil {
		return fmt.Errorf("mounting: %w", err)
	}
	defer func() { err = errors.Join(err, unmount(at)) }()
	run := func() error {
		if job.direct != nil {
			return job.direct(at)
		}
		return shell(job.run)
	}
	if job.warm {
		if err := run(); err != nil {
			return err
		}
	}
	began := time.Now()
	err = run()
	took := time.Since(began)
	if err != nil {
		return fmt.Errorf("on the mount: %w", err)
	}
	return os.WriteFile(os.Getenv("TOOK"), fmt.Appendln(nil, took.Seconds()), 0o644)
}

// unmount waits for programs to let go of the mount.
func unmount(at string) (err error) {
	for range 50 {
		if err = exec.Command("fusermount3", "-u", at).Run(); err == nil {
			return nil
		}
		time.Sleep(100 * time.Millisecond)
	}
	return errors.Join(err, exec.Command("fusermount3", "-uz", at).Run())
}

// writeArchive puts the source into an archive, for who extracts it.
func writeArchive(name, source, job string) error {
	if job != "tar" {
		return nil
	}
	file, err := os.Create(name)
	if err != nil {
		return err
	}
	archive := tar.NewWriter(file)
	return errors.Join(archive.AddFS(os.DirFS(source)), archive.Close(), file.Close())
}

const (
	randomReads   = 2000
	randomReaders = 16
	randomSize    = 4 << 10
)

// readRandomly reads blocks of a file in no order, several at once.
func readRandomly(name string) error {
	file, err := os.Open(name)
	if err != nil {
		return err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return err
	}
	blocks := info.Size() / randomSize
	failures := make(chan error, randomReaders)
	var readers sync.WaitGroup
	for reader := range randomReaders {
		readers.Go(func() {
			random := rand.New(rand.NewPCG(uint64(reader), 11))
			block := make([]byte, randomSize)
			for range randomReads / randomReaders {
				if _, err := io.ReadFull(io.NewSectionReader(file, random.Int64N(blocks)*randomSize,
					randomSize), block); err != nil {
					failures <- err
					return
				}
			}
		})
	}
	readers.Wait()
	close(failures)
	return <-failures
}
