package daemon

import (
	"cmp"
	"errors"
	"fmt"
	"path"
	"slices"

	"github.com/usftp/usftp/internal/filter"
	"github.com/usftp/usftp/internal/samename"
	"github.com/usftp/usftp/internal/site"
)

// folderTable is a folder in the tree of a user. A zero value means unset, and is inherited from
// around it.
type folderTable struct {
	Path        pathText        `toml:"path"`
	Root        string          `toml:"root"`
	ReadOnly    *bool           `toml:"read_only"`
	Allow       []operationText `toml:"allow"`
	Deny        []operationText `toml:"deny"`
	Umask       *umaskText      `toml:"umask"`
	RefuseNames []patternText   `toml:"refuse_names"`
	QuotaBytes  sizeText        `toml:"quota_bytes"`
	QuotaFiles  countNumber     `toml:"quota_files"`
}

type (
	pathText    struct{ checked }
	patternText struct{ checked }
)

func (p *pathText) UnmarshalText(text []byte) error {
	p.text = string(text)
	if !path.IsAbs(p.text) || p.text == "/" || path.Clean(p.text) != p.text {
		return at(text,
			fmt.Errorf("%q is no path of a folder: use one such as /in or /in/new", text))
	}
	return nil
}

func (p *patternText) UnmarshalText(text []byte) error {
	p.text = string(text)
	if _, err := filter.NewRefusal(p.text); err != nil {
		return at(text, fmt.Errorf("%q is no pattern for names: %w", text, err))
	}
	return nil
}

var (
	errNoPath    = errors.New("a folder needs a path, such as /in")
	errTwoPaths  = errors.New("another folder has this path")
	errRuleQuota = errors.New("only a folder with a root has a quota of its own")
)

// folderError is an error about a setting of the folder with this number.
type folderError struct {
	error
	number int
	key    string
}

// folders puts the folders of a user into the account, the outer ones first.
func (t *userTable) folders(one *site.Account) error {
	numbers := make([]int, len(t.Folders))
	for i := range numbers {
		numbers[i] = i
	}
	slices.SortStableFunc(numbers, func(a, b int) int {
		return cmp.Compare(len(t.Folders[a].Path.text), len(t.Folders[b].Path.text))
	})
	for _, i := range numbers {
		f := &t.Folders[i]
		wrong := func(key string, err error) error { return folderError{err, i, key} }
		made := site.Folder{Path: f.Path.text, Policy: one.Policy, RefusedNames: one.RefusedNames,
			Quota: [2]int64{int64(f.QuotaBytes), int64(f.QuotaFiles)}}
		switch {
		case made.Path == "":
			return wrong("path", errNoPath)
		case slices.ContainsFunc(one.Folders, func(other site.Folder) bool {
			return slices.Equal(samename.Keys(other.Path), samename.Keys(made.Path))
		}):
			return wrong("path", errTwoPaths)
		case f.Root == "" && made.Quota != [2]int64{}:
			return wrong("path", errRuleQuota)
		case f.Allow != nil && len(f.Allow) == 0:
			return wrong("allow", errOpens)
		}
		if around := site.Around(one.Folders, made.Path); around != nil {
			made.Policy, made.RefusedNames = around.Policy, around.RefusedNames
		}
		f.say(&made)
		var err error
		if made.Root, err = rootFor(f.Root, t.Name); err != nil {
			return wrong("root", err)
		}
		one.Folders = append(one.Folders, made)
	}
	return nil
}

// say applies the table to a folder.
func (f *folderTable) say(made *site.Folder) {
	if f.ReadOnly != nil {
		made.Policy.ReadOnly = *f.ReadOnly
	}
	if f.Allow != nil {
		made.Policy.Allowed = texts(f.Allow)
	}
	if f.Deny != nil {
		made.Policy.Denied = texts(f.Deny)
	}
	if f.Umask != nil {
		made.Policy.Umask = f.Umask.mode
	}
	if f.RefuseNames != nil {
		made.RefusedNames = texts(f.RefuseNames)
	}
}

// wrongFolder returns an error about a folder of a user. Tables of folders are numbered through the
// whole file, except those of groups.
func (f *configFile) wrongFolder(i int, group string, at folderError) error {
	first := 0
	for _, before := range f.ownFolders[:i] {
		first += before
	}
	name := entry("users.folders", first+at.number)
	if f.ownFolders[i] == 0 {
		name = entry("groups."+group+".folders", at.number)
	}
	if f.lines[name] == 0 { // they are in braces
		return f.wrongUser(i, group, "folders", at.error)
	}
	return f.wrong(name, at.key, at.error)
}

// rootsOfFolders resolves the roots of folders, and notes one that cannot be served.
func (f *configFile) rootsOfFolders(i int, u *userTable, one *site.Account) error {
	for j := range one.Folders {
		folder := &one.Folders[j]
		if folder.Root == "" {
			continue
		}
		number := slices.IndexFunc(u.Folders, func(t folderTable) bool {
			return t.Path.text == folder.Path
		})
		var err error
		if folder.Root, err = f.root(folder.Root); err != nil {
			return f.wrongFolder(i, u.Group, folderError{err, number, "root"})
		}
		if err := missing(folder.Root, false); err != nil && one.Problem == nil {
			one.Problem = f.wrongFolder(i, u.Group, folderError{err, number, "root"})
		}
	}
	return nil
}
