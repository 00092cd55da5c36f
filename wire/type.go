package wire

import "strconv"

// Version is the protocol version spoken here. All servers of note agree on 3 (draft-02, section
// 4).
const Version = 3

// Type is the first byte of a packet's contents (draft-02, section 3).
type Type uint8

// The packet types of draft-02, section 3.
const (
	TypeInit          Type = 1
	TypeVersion       Type = 2
	TypeOpen          Type = 3
	TypeClose         Type = 4
	TypeRead          Type = 5
	TypeWrite         Type = 6
	TypeLstat         Type = 7
	TypeFstat         Type = 8
	TypeSetstat       Type = 9
	TypeFsetstat      Type = 10
	TypeOpendir       Type = 11
	TypeReaddir       Type = 12
	TypeRemove        Type = 13
	TypeMkdir         Type = 14
	TypeRmdir         Type = 15
	TypeRealpath      Type = 16
	TypeStat          Type = 17
	TypeRename        Type = 18
	TypeReadlink      Type = 19
	TypeSymlink       Type = 20
	TypeStatus        Type = 101
	TypeHandle        Type = 102
	TypeData          Type = 103
	TypeName          Type = 104
	TypeAttrs         Type = 105
	TypeExtended      Type = 200
	TypeExtendedReply Type = 201
)

// typeNames are the draft's names without their SSH_FXP_ prefix.
var typeNames = map[Type]string{
	TypeInit:          "INIT",
	TypeVersion:       "VERSION",
	TypeOpen:          "OPEN",
	TypeClose:         "CLOSE",
	TypeRead:          "READ",
	TypeWrite:         "WRITE",
	TypeLstat:         "LSTAT",
	TypeFstat:         "FSTAT",
	TypeSetstat:       "SETSTAT",
	TypeFsetstat:      "FSETSTAT",
	TypeOpendir:       "OPENDIR",
	TypeReaddir:       "READDIR",
	TypeRemove:        "REMOVE",
	TypeMkdir:         "MKDIR",
	TypeRmdir:         "RMDIR",
	TypeRealpath:      "REALPATH",
	TypeStat:          "STAT",
	TypeRename:        "RENAME",
	TypeReadlink:      "READLINK",
	TypeSymlink:       "SYMLINK",
	TypeStatus:        "STATUS",
	TypeHandle:        "HANDLE",
	TypeData:          "DATA",
	TypeName:          "NAME",
	TypeAttrs:         "ATTRS",
	TypeExtended:      "EXTENDED",
	TypeExtendedReply: "EXTENDED_REPLY",
}

// String returns the name that the draft gives the type, without its SSH_FXP_ prefix.
func (t Type) String() string {
	if name, ok := typeNames[t]; ok {
		return name
	}
	return "packet type " + strconv.Itoa(int(t))
}
