package wire

// extensionPackets are the extended requests of OpenSSH's PROTOCOL, section 4.
func extensionPackets() []packetCase {
	return []packetCase{
		{name: "EXTENDED", packet: `
			00 00 00 0f
			c8           # SSH_FXP_EXTENDED
			01 02 03 04
			00 00 00 03 "x@y"
			00 ff 0a     # whatever the extension says`,
			message: &Extended{Name: "x@y", Payload: []byte{0x00, 0xff, 0x0a}}, opaque: 3},

		{name: "EXTENDED without payload", packet: `00 00 00 0c c8 01 02 03 04 00 00 00 03 "x@y"`,
			message: &Extended{Name: "x@y", Payload: []byte{}}},

		{name: "limits, read as EXTENDED", packet: limitsPacket,
			message: &Extended{Name: ExtLimits, Payload: []byte{}}},

		{name: "posix-rename", packet: `
			00 00 00 30
			c8
			01 02 03 04
			00 00 00 18 "posix-rename@openssh.com"
			00 00 00 03 "old"
			00 00 00 04 "newf"`,
			message: &PosixRename{OldPath: "old", NewPath: "newf"}},

		{name: "hardlink", packet: `
			00 00 00 2c
			c8
			01 02 03 04
			00 00 00 14 "hardlink@openssh.com"
			00 00 00 03 "old"
			00 00 00 04 "newf"`,
			message: &Hardlink{OldPath: "old", NewPath: "newf"}},

		{name: "statvfs", packet: `
			00 00 00 22
			c8
			01 02 03 04
			00 00 00 13 "statvfs@openssh.com"
			00 00 00 02 "/d"`,
			message: &ExtendedPath{Name: ExtStatVFS, Path: "/d"}},

		{name: "expand-path", packet: `
			00 00 00 28
			c8
			01 02 03 04
			00 00 00 17 "expand-path@openssh.com"
			00 00 00 04 "~/ab"`,
			message: &ExtendedPath{Name: ExtExpandPath, Path: "~/ab"}},

		{name: "home-directory", packet: `
			00 00 00 1e
			c8
			01 02 03 04
			00 00 00 0e "home-directory"
			00 00 00 03 "joe"`,
			message: &ExtendedPath{Name: ExtHomeDirectory, Path: "joe"}},

		{name: "fstatvfs", packet: `
			00 00 00 22
			c8
			01 02 03 04
			00 00 00 14 "fstatvfs@openssh.com"
			00 00 00 01 "h"`,
			message: &ExtendedHandle{Name: ExtFstatVFS, Handle: []byte("h")}},

		{name: "fsync", packet: `
			00 00 00 1f
			c8
			01 02 03 04
			00 00 00 11 "fsync@openssh.com"
			00 00 00 01 "h"`,
			message: &ExtendedHandle{Name: ExtFsync, Handle: []byte("h")}},

		{name: "uploads", packet: `
			00 00 00 1c
			c8
			01 02 03 04
			00 00 00 0d "uploads@usftp"
			00 00 00 02 "/f"`,
			message: &ExtendedPath{Name: ExtUploads, Path: "/f"}},
		{name: "abandon", packet: `
			00 00 00 1b
			c8
			01 02 03 04
			00 00 00 0d "abandon@usftp"
			00 00 00 01 "h"`,
			message: &ExtendedHandle{Name: ExtAbandon, Handle: []byte("h")}},

		{name: "lsetstat", packet: `
			00 00 00 2f
			c8
			01 02 03 04
			00 00 00 14 "lsetstat@openssh.com"
			00 00 00 02 "/l"
			00 00 00 02  # UIDGID
			00 00 00 05 00 00 00 06`,
			message: &Lsetstat{Path: "/l", Attrs: Attrs{Flags: AttrUIDGID, UID: 5, GID: 6}}},

		{name: "copy-data", packet: `
			00 00 00 34
			c8
			01 02 03 04
			00 00 00 09 "copy-data"
			00 00 00 01 "r"          # read-from-handle
			00 00 00 00 00 00 00 10  # read-from-offset
			00 00 00 01 00 00 00 00  # read-data-length
			00 00 00 01 "w"          # write-to-handle
			00 00 00 00 00 00 00 20  # write-to-offset`,
			message: &CopyData{FromHandle: []byte("r"), FromOffset: 0x10, Length: 1 << 32,
				ToHandle: []byte("w"), ToOffset: 0x20}},

		{name: "users-groups-by-id", packet: `
			00 00 00 3b
			c8
			01 02 03 04
			00 00 00 1e "users-groups-by-id@openssh.com"
			00 00 00 08 00 00 00 00 00 00 03 e8  # uids
			00 00 00 04 00 00 00 64              # gids`,
			message: &UsersGroupsByID{UIDs: []uint32{0, 1000}, GIDs: []uint32{100}}},

		{name: "users-groups-by-id of nobody", packet: `
			00 00 00 2f
			c8
			01 02 03 04
			00 00 00 1e "users-groups-by-id@openssh.com"
			00 00 00 00
			00 00 00 00`,
			message: &UsersGroupsByID{}},
	}
}

// limitsPacket is the limits request, whose name is all there is of it (OpenSSH's PROTOCOL, section
// 4.8).
const limitsPacket = `
	00 00 00 1b
	c8
	01 02 03 04
	00 00 00 12 "limits@openssh.com"`

// extensionReplyPackets are the answers that are EXTENDED_REPLY.
func extensionReplyPackets() []packetCase {
	return []packetCase{
		{name: "EXTENDED_REPLY", packet: `
			00 00 00 08
			c9           # SSH_FXP_EXTENDED_REPLY
			01 02 03 04
			00 ff 0a`,
			message: &ExtendedReply{[]byte{0x00, 0xff, 0x0a}}, opaque: 3},
		{name: "EXTENDED_REPLY without payload", packet: `00 00 00 05 c9 01 02 03 04`,
			message: &ExtendedReply{[]byte{}}},

		{name: "reply to limits, from OpenSSH", packet: `
			00 00 00 25
			c9
			01 02 03 04
			00 00 00 00 00 04 00 00  # max-packet-length
			00 00 00 00 00 03 fc 00  # max-read-length
			00 00 00 00 00 03 fc 01  # max-write-length
			00 00 00 00 00 00 03 fb  # max-open-handles`,
			message: &LimitsReply{MaxPacket: 262144, MaxRead: 261120, MaxWrite: 261121,
				MaxOpenHandles: 1019}},

		{name: "reply to statvfs", packet: `
			00 00 00 5d
			c9
			01 02 03 04
			00 00 00 00 00 00 10 00  # f_bsize
			00 00 00 00 00 00 02 00  # f_frsize
			00 00 00 00 00 00 00 03  # f_blocks
			00 00 00 00 00 00 00 04  # f_bfree
			00 00 00 00 00 00 00 05  # f_bavail
			00 00 00 00 00 00 00 06  # f_files
			00 00 00 00 00 00 00 07  # f_ffree
			00 00 00 00 00 00 00 08  # f_favail
			80 00 00 00 00 00 00 09  # f_fsid
			00 00 00 00 00 00 00 03  # f_flag: RDONLY NOSUID
			00 00 00 00 00 00 00 ff  # f_namemax`,
			message: &StatVFSReply{BlockSize: 4096, FragmentSize: 512, Blocks: 3, BlocksFree: 4,
				BlocksAvailable: 5,
				Files:           6, FilesFree: 7, FilesAvailable: 8, FSID: 0x8000000000000009,
				Flags: StatVFSReadOnly | StatVFSNoSetuid, NameMax: 255}},

		{name: "reply to users-groups-by-id", packet: `
			00 00 00 1e
			c9
			01 02 03 04
			00 00 00 0c              # usernames
			00 00 00 04 "root"
			00 00 00 00              # there is no such user
			00 00 00 05              # groupnames
			00 00 00 01 "a"`,
			message: &UsersGroupsReply{Users: []string{"root", ""}, Groups: []string{"a"}}},
		{name: "reply to users-groups-by-id about nobody",
			packet:  `00 00 00 0d c9 01 02 03 04 00 00 00 00 00 00 00 00`,
			message: &UsersGroupsReply{}},
	}
}

// checkFilePackets are the hashes of draft-ietf-secsh-filexfer-extensions-00, section 3.
func checkFilePackets() []packetCase {
	return []packetCase{
		{name: "check-file-handle", packet: `
			00 00 00 42
			c8
			01 02 03 04
			00 00 00 11 "check-file-handle"
			00 00 00 01 "h"
			00 00 00 0b "sha256,sha1"  # hash-algorithm-list
			00 00 00 00 00 00 00 10    # start-offset
			00 00 00 01 00 00 00 00    # length
			00 01 00 00                # block-size`,
			message: &CheckFile{Name: ExtCheckFileHandle, Target: []byte("h"),
				Algorithms: "sha256,sha1", Offset: 16, Length: 1 << 32,
				BlockSize: 65536}},

		{name: "check-file-name", packet: `
			00 00 00 39
			c8
			01 02 03 04
			00 00 00 0f "check-file-name"
			00 00 00 02 "/f"
			00 00 00 03 "md5"
			00 00 00 00 00 00 00 00
			00 00 00 00 00 00 00 00
			00 00 00 00`,
			message: &CheckFile{Name: ExtCheckFileName, Target: []byte("/f"), Algorithms: "md5"}},

		{name: "reply to check-file-handle, as the draft and ProFTPD have it", packet: `
			00 00 00 11
			c9
			01 02 03 04
			00 00 00 03 "md5"  # hash-algo-used
			0a 0b 0c 0d 0e     # the hashes, of no length but the algorithm's`,
			message: &CheckFileReply{Algorithm: "md5",
				Hashes: []byte{10, 11, 12, 13, 14}}, opaque: 5},

		{name: "reply to check-file, as paramiko has it", packet: `
			00 00 00 1f
			c9
			01 02 03 04
			00 00 00 0a "check-file"
			00 00 00 03 "md5"
			0a 0b 0c 0d 0e`,
			message: &CheckFileReply{Name: ExtCheckFile, Algorithm: "md5",
				Hashes: []byte{10, 11, 12, 13, 14}}, opaque: 5},
	}
}
