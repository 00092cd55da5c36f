package verb

import (
	"context"
	"strings"
)

// RemoveDirectoryOptions are the options of rmdir.
type RemoveDirectoryOptions struct {
	Parents bool // -p: also the parents in the path
}

// RemoveDirectory implements rmdir: it removes empty directories.
func RemoveDirectory(ctx context.Context, env *Env, o RemoveDirectoryOptions,
	names []string) error {
	j := env.begin(ctx)
	var ops pipeline
	for i, name := range names {
		if o.Parents {
			removeChain(j, name)
			continue
		}
		pending := j.client.Async().RemoveDirectory(j.at(name))
		ops.add(func() {
			_, err := pending.Wait()
			if err != nil && early(j, i) { // an earlier operand may have been in it
				err = j.client.RemoveDirectory(j.at(name))
			}
			directoryRemoved(j, name, err)
		})
	}
	ops.drain()
	return j.end()
}

// removeChain removes a directory and then its parents.
func removeChain(j *job, name string) {
	for name = strings.TrimRight(name, "/"); name != "" && name != "." && !j.over(); {
		err := j.client.RemoveDirectory(j.at(name))
		if directoryRemoved(j, name, err); err != nil {
			return
		}
		i := strings.LastIndexByte(name, '/')
		if i < 0 {
			return
		}
		name = strings.TrimRight(name[:i], "/")
	}
}

// directoryRemoved reports the outcome of rmdir for a directory. GNU's rmdir -v names it before it
// tries, so it is named in any case.
func directoryRemoved(j *job, name string, err error) {
	text := "rmdir: removing directory, " + j.quoted(name)
	if err == nil {
		j.done("removed", name, "", text)
		return
	}
	if j.Verbose && !j.JSON {
		j.line(text)
	}
	j.fail("remove directory", name, whyNotRemoved(j, name, err))
}
