package objectfs

import (
	"path"
	"regexp"
	"strings"
)

// The names under which clients upload a file that they then rename: WinSCP's, rclone's and our
// own (internal/localfs).
var temporary = []*regexp.Regexp{
	regexp.MustCompile(`^(.+)\.filepart$`),
	regexp.MustCompile(`^(.+)\.[0-9A-Za-z]{8}\.partial$`),
	regexp.MustCompile(`^\.(.+)\.usftp-[0-9a-f]{12}$`),
}

// FinalName returns the path or key that a client is about to rename a temporary one to, or name
// itself if it is not temporary.
func FinalName(name string) string {
	dir, base := path.Split(name)
	for _, pattern := range temporary {
		if m := pattern.FindStringSubmatch(base); m != nil {
			return dir + m[1]
		}
	}
	return name
}

// parentOf returns the prefix of the directory that a key is in.
func parentOf(key string) string { return key[:strings.LastIndexByte(key, '/')+1] }
