//go:build linux || darwin

package mount

import (
	"bytes"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
)

// unmount unmounts a directory. It does not use the file system, which may not answer.
func unmount(at string, lazy bool) error {
	at, err := filepath.Abs(at)
	if err != nil {
		return err
	}
	program, args := "umount", []string{}
	if runtime.GOOS == "linux" {
		program, args = "fusermount3", []string{"-u"}
		if _, err := exec.LookPath(program); err != nil {
			program = "fusermount"
		}
		if lazy {
			args = append(args, "-z")
		}
	} else if lazy {
		args = append(args, "-f")
	}
	cmd := exec.Command(program, append(args, "--", at)...)
	var said bytes.Buffer
	cmd.Stderr = &said
	err = cmd.Run()
	text := strings.TrimSpace(said.String())
	switch {
	case err == nil:
		return nil
	case strings.Contains(text, "busy"):
		return errors.New("programs are using it; -z unmounts it anyway")
	case strings.Contains(text, "not found in /"), strings.Contains(text, "not currently mounted"),
		strings.HasSuffix(text, "Invalid argument"): // for root
		return errors.New("nothing is mounted there")
	case text != "":
		return errors.New(strings.TrimPrefix(text, program+": failed to unmount "+at+": "))
	}
	return fmt.Errorf("%s: %w", program, err)
}
