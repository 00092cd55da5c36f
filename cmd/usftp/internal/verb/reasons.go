package verb

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/internal/endpoint"
	"github.com/usftp/usftp/internal/ui"
)

// Reasons for which version 3 has no status; verbs find them out after a failure.
var (
	errIsDirectory  = errors.New("is a directory")
	errNotDirectory = errors.New("not a directory")
	errNotEmpty     = errors.New("directory not empty")
)

// whyMissing returns why a name could not be made. Servers also answer "no such file" if a parent
// is not a directory.
func whyMissing(j *job, name string, err error) error {
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	above := prefixes(name)
	above = above[:len(above)-1]
	file, missing := strings.TrimRight(name, "/"), ""
	if file != name && file != "" {
		above = append(above, file)
	}
	for r := range usftp.Batch(slices.Values(above), 0,
		func(name string) *usftp.Pending[fs.FileInfo] {
			return j.client.Async().Stat(j.at(name))
		}) {
		switch {
		case r.Err == nil && !r.Value.IsDir():
			return errNotDirectory
		case errors.Is(r.Err, fs.ErrNotExist) && (r.Item != file || missing == ""):
			missing = r.Item
		}
	}
	if missing != "" {
		if _, err := j.client.Lstat(j.at(missing)); err == nil {
			return fmt.Errorf("%s is a link that leads nowhere", j.title(missing))
		}
		return errors.New(endpoint.NoDirectory(j.title(missing)).Error())
	}
	return err
}

// prefixes returns the directories above a path, as spelled in it, the highest first, and the path.
func prefixes(name string) (list []string) {
	for i := 1; i < len(strings.TrimRight(name, "/")); i++ {
		if name[i] == '/' && name[i-1] != '/' {
			list = append(list, name[:i])
		}
	}
	return append(list, name)
}

// reasonOf describes the reason for a failure in a few words, using the server's words if they say
// more than the status code does.
func reasonOf(err error) string {
	status, _ := errors.AsType[*usftp.StatusError](err)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "no such file or directory"
	case errors.Is(err, fs.ErrPermission) && status != nil:
		return status.Error()
	case errors.Is(err, fs.ErrPermission):
		return "permission denied"
	case errors.Is(err, fs.ErrExist):
		return "file exists"
	case errors.Is(err, errors.ErrUnsupported):
		return "the server does not support this"
	case errors.Is(err, usftp.ErrSSHFxBadMessage): // OpenSSH's answer to EINVAL and ENAMETOOLONG
		return "the server does not accept this name or value"
	case status != nil && status.Message != "" && !strings.EqualFold(status.Message, "failure"):
		return status.Message
	case status != nil:
		return "the server refused without giving a reason"
	}
	return ui.ReasonOf(err)
}

// whyNotOpened looks for the cause of a refusal without a reason: directories cannot be read.
func whyNotOpened(j *job, name string, err error) error {
	if errors.Is(err, usftp.ErrSSHFxFailure) {
		if info, statErr := j.client.Stat(j.at(name)); statErr == nil && info.IsDir() {
			return errIsDirectory
		}
	}
	return err
}

// whyNotRemoved looks for the cause of a refusal without a reason.
func whyNotRemoved(j *job, name string, err error) error {
	if !errors.Is(err, usftp.ErrSSHFxFailure) && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	info, statErr := j.client.Lstat(j.at(name))
	switch {
	case statErr != nil:
		return err
	case !info.IsDir():
		return errNotDirectory
	}
	if holds(j, name) {
		return errNotEmpty
	}
	return err
}

// holds reports whether a directory has entries.
func holds(j *job, name string) bool {
	for _, err := range j.client.Entries(j.at(name)) {
		return err == nil
	}
	return false
}
