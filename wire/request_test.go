package wire

// requestPackets are the requests of draft-02, sections 4 and 6; extended requests are with the
// extensions.
func requestPackets() []packetCase {
	return []packetCase{
		{name: "INIT", packet: `
			00 00 00 05
			01           # SSH_FXP_INIT
			00 00 00 03  # version`,
			message: &initPacket{Init{Version: 3}}},

		{name: "INIT with an extension", packet: `
			00 00 00 11
			01
			00 00 00 03
			00 00 00 03 "a@b"
			00 00 00 01 "1"`,
			message:  &initPacket{Init{Version: 3, Extensions: []ExtensionPair{{"a@b", "1"}}}},
			mayEndAt: []int{4}},

		{name: "OPEN for reading", packet: `
			00 00 00 14
			03           # SSH_FXP_OPEN
			01 02 03 04
			00 00 00 03 "/a0"
			00 00 00 01  # pflags: READ
			00 00 00 00  # attrs: no flags`,
			message: &Open{Path: "/a0", Flags: OpenRead}},

		{name: "OPEN that creates", packet: `
			00 00 00 18
			03
			01 02 03 04
			00 00 00 03 "/a0"
			00 00 00 3e  # pflags: WRITE APPEND CREAT TRUNC EXCL
			00 00 00 04  # attrs: PERMISSIONS
			00 00 01 a4  # 0644`,
			message: &Open{Path: "/a0",
				Flags: OpenWrite | OpenAppend | OpenCreate | OpenTruncate | OpenExclusive,
				Attrs: Attrs{Flags: AttrPermissions, Permissions: 0o644}}},

		{name: "CLOSE", packet: `
			00 00 00 0d
			04           # SSH_FXP_CLOSE
			01 02 03 04
			00 00 00 04 00 ff 80 0a  # a handle is any bytes`,
			message: &HandleRequest{Type: TypeClose, Handle: []byte{0, 0xff, 0x80, 0x0a}}},

		{name: "READ", packet: `
			00 00 00 16
			05           # SSH_FXP_READ
			01 02 03 04
			00 00 00 01 "h"
			01 23 45 67 89 ab cd ef  # offset
			00 03 fc 00              # len`,
			message: &Read{Handle: []byte("h"), Offset: 0x0123456789abcdef, Length: MaxData}},

		{name: "WRITE", packet: `
			00 00 00 1b
			06           # SSH_FXP_WRITE
			01 02 03 04
			00 00 00 01 "h"
			01 23 45 67 89 ab cd ef
			00 00 00 05 "hello"`,
			message: &Write{Handle: []byte("h"), Offset: 0x0123456789abcdef,
				Data: []byte("hello")}},

		{name: "WRITE of nothing", packet: `
			00 00 00 16
			06
			01 02 03 04
			00 00 00 01 "h"
			00 00 00 00 00 00 00 00
			00 00 00 00`,
			message: &Write{Handle: []byte("h"), Data: []byte{}}},

		{name: "LSTAT", packet: `00 00 00 0b 07 01 02 03 04 00 00 00 02 "/l"`,
			message: &PathRequest{Type: TypeLstat, Path: "/l"}},
		{name: "FSTAT", packet: `00 00 00 0a 08 01 02 03 04 00 00 00 01 "h"`,
			message: &HandleRequest{Type: TypeFstat, Handle: []byte("h")}},
		{name: "OPENDIR", packet: `00 00 00 0b 0b 01 02 03 04 00 00 00 02 "/d"`,
			message: &PathRequest{Type: TypeOpendir, Path: "/d"}},
		{name: "READDIR", packet: `00 00 00 0a 0c 01 02 03 04 00 00 00 01 "h"`,
			message: &HandleRequest{Type: TypeReaddir, Handle: []byte("h")}},
		{name: "REMOVE", packet: `00 00 00 0b 0d 01 02 03 04 00 00 00 02 "/f"`,
			message: &PathRequest{Type: TypeRemove, Path: "/f"}},
		{name: "RMDIR", packet: `00 00 00 0b 0f 01 02 03 04 00 00 00 02 "/d"`,
			message: &PathRequest{Type: TypeRmdir, Path: "/d"}},
		{name: "REALPATH of nothing, the home", packet: `00 00 00 09 10 01 02 03 04 00 00 00 00`,
			message: &PathRequest{Type: TypeRealpath}},
		{name: "STAT of a name that is no UTF-8",
			packet:  `00 00 00 0b 11 01 02 03 04 00 00 00 02 "/" e9`,
			message: &PathRequest{Type: TypeStat, Path: "/\xe9"}},
		{name: "READLINK", packet: `00 00 00 0b 13 01 02 03 04 00 00 00 02 "/l"`,
			message: &PathRequest{Type: TypeReadlink, Path: "/l"}},

		{name: "SETSTAT", packet: `
			00 00 00 17
			09           # SSH_FXP_SETSTAT
			01 02 03 04
			00 00 00 02 "/f"
			00 00 00 08  # ACMODTIME
			65 00 00 01 65 00 00 02`,
			message: &PathAttrs{Type: TypeSetstat, Path: "/f",
				Attrs: Attrs{Flags: AttrACModTime, ATime: 0x65000001, MTime: 0x65000002}}},

		{name: "FSETSTAT", packet: `
			00 00 00 16
			0a           # SSH_FXP_FSETSTAT
			01 02 03 04
			00 00 00 01 "h"
			00 00 00 01  # SIZE
			00 00 00 01 00 00 00 00`,
			message: &Fsetstat{Handle: []byte("h"), Attrs: Attrs{Flags: AttrSize, Size: 1 << 32}}},

		{name: "MKDIR", packet: `
			00 00 00 13
			0e           # SSH_FXP_MKDIR
			01 02 03 04
			00 00 00 02 "/d"
			00 00 00 04
			00 00 01 c0  # 0700`,
			message: &PathAttrs{Type: TypeMkdir, Path: "/d",
				Attrs: Attrs{Flags: AttrPermissions, Permissions: 0o700}}},

		{name: "RENAME", packet: `
			00 00 00 14
			12           # SSH_FXP_RENAME
			01 02 03 04
			00 00 00 03 "old"
			00 00 00 04 "newf"`,
			message: &Rename{OldPath: "old", NewPath: "newf"}},

		{name: "SYMLINK", packet: `
			00 00 00 14
			14           # SSH_FXP_SYMLINK
			01 02 03 04
			00 00 00 03 "one"
			00 00 00 04 "twos"`,
			message: &Symlink{First: "one", Second: "twos"}},
	}
}
