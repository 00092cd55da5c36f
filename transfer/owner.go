package transfer

import (
	"errors"
	"io/fs"

	"github.com/usftp/usftp"
)

// owner is whose a file is, by numbers: SFTP version 3 has no others (draft-02 section 5), and the
// two sides need not know the same people.
type owner struct {
	uid, gid int
	known    bool
}

// ownerOf returns whose a file is, as far as it is told.
func ownerOf(info fs.FileInfo) owner {
	if info == nil {
		return owner{}
	}
	if stat, remote := info.Sys().(*usftp.FileStat); remote {
		return remoteOwner(stat)
	}
	return localOwner(info)
}

func remoteOwner(stat *usftp.FileStat) owner {
	return owner{int(stat.UID), int(stat.GID), stat.HasOwner()}
}

// errNoOwner says that there is nobody whose the copy could be.
var errNoOwner = errors.New("the source's owner is not known")

// chown gives a copy the source's owner, where that is asked for, by a function that does it.
func (o *Options) chown(to owner, set func(uid, gid int) error) error {
	switch {
	case !o.Owners:
		return nil
	case !to.known:
		return errNoOwner
	}
	return set(to.uid, to.gid)
}
