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

// String returns the name the draft gives the type, without its SSH_FXP_ prefix.
func (t Type) String() string {
	switch t {
	case TypeInit:
		return "INIT"
	case TypeVersion:
		return "VERSION"
	case TypeOpen:
		return "OPEN"
	case TypeClose:
		return "CLOSE"
	case TypeRead:
		return "READ"
	case TypeWrite:
		return "WRITE"
	case TypeLstat:
		return "LSTAT"
	case TypeFstat:
		return "FSTAT"
	case TypeSetstat:
		return "SETSTAT"
	case TypeFsetstat:
		return "FSETSTAT"
	case TypeOpendir:
		return "OPENDIR"
	case TypeReaddir:
		return "READDIR"
	case TypeRemove:
		return "REMOVE"
	case TypeMkdir:
		return "MKDIR"
	case TypeRmdir:
		return "RMDIR"
	case TypeRealpath:
		return "REALPATH"
	case TypeStat:
		return "STAT"
	case TypeRename:
		return "RENAME"
	case TypeReadlink:
		return "READLINK"
	case TypeSymlink:
		return "SYMLINK"
	case TypeStatus:
		return "STATUS"
	case TypeHandle:
		return "HANDLE"
	case TypeData:
		return "DATA"
	case TypeName:
		return "NAME"
	case TypeAttrs:
		return "ATTRS"
	case TypeExtended:
		return "EXTENDED"
	case TypeExtendedReply:
		return "EXTENDED_REPLY"
	}
	return "packet type " + strconv.Itoa(int(t))
}
