package wire

import (
	"bytes"
	"errors"
	"reflect"
	"testing"
)

// fuzzMessage feeds bytes to the Parse of like's type. What it accepts must be appended and parsed
// again to the same message and the same bytes. The seeds are the packets of that type that are
// written out in the tests.
func fuzzMessage(f *testing.F, like message) {
	for _, c := range allPackets() {
		if reflect.TypeOf(c.message) == reflect.TypeOf(like) {
			_, body := c.bytes(f)
			f.Add(body)
		}
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		original := bytes.Clone(body)
		first := blank(like)
		if err := first.Parse(body); err != nil {
			if !errors.Is(err, ErrShort) && !errors.Is(err, ErrHandleTooLong) {
				t.Fatalf("error of an unknown kind: %v", err)
			}
			return
		}
		packet := first.Append(nil, testID)
		if !bytes.Equal(body, original) {
			t.Fatalf("the body\n% x became\n% x", original, body)
		}
		second := blank(like)
		if err := second.Parse(bodyOf(t, packet, like)); err != nil {
			t.Fatalf("%+v was appended as % x, which does not parse: %v", first, packet, err)
		}
		if !reflect.DeepEqual(first, second) {
			t.Fatalf("%+v came back as %+v", first, second)
		}
		if again := second.Append(nil, testID); !bytes.Equal(again, packet) {
			t.Fatalf("%+v was appended as % x, then as % x", first, packet, again)
		}
	})
}

func FuzzHeader(f *testing.F) {
	for _, c := range allPackets() {
		f.Add(unhex(f, c.packet)[LengthSize:])
	}
	f.Fuzz(func(t *testing.T, packet []byte) {
		kind, id, body, err := ParseHeader(packet)
		if err != nil {
			if !errors.Is(err, ErrShort) {
				t.Fatalf("error of an unknown kind: %v", err)
			}
			return
		}
		again := []byte{byte(kind)}
		if kind != TypeInit && kind != TypeVersion {
			again = appendHeader(nil, kind, 0)
			SetID(again, id)
			again = again[LengthSize:]
		}
		if again = append(again, body...); !bytes.Equal(again, packet) {
			t.Fatalf("% x came back as % x", packet, again)
		}
	})
}

// FuzzNameReader checks that entries read one at a time are those of the packet read whole.
func FuzzNameReader(f *testing.F) {
	for _, c := range replyPackets() {
		if _, ok := c.message.(*Names); ok {
			_, body := c.bytes(f)
			f.Add(body)
		}
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		var whole Names
		wholeErr := whole.Parse(body)

		var single []Name
		r, err := NewNameReader(body)
		for err == nil && r.Remaining() > 0 {
			var n Name
			if err = r.Next(&n); err == nil {
				single = append(single, n)
			}
		}
		if err != wholeErr {
			t.Fatalf("one at a time: %v, whole: %v", err, wholeErr)
		}
		if err == nil && !reflect.DeepEqual(single, whole.Names) {
			t.Fatalf("one at a time: %+v, whole: %+v", single, whole.Names)
		}

		r, err = NewNameReader(body)
		for i := 0; err == nil && r.Remaining() > 0; i++ {
			var attrs Attrs
			var filename []byte
			if filename, err = r.NextEntry(&attrs); err == nil &&
				(string(filename) != single[i].Filename ||
					!reflect.DeepEqual(attrs, single[i].Attrs)) {
				t.Fatalf("as an entry: %q %+v, whole: %+v", filename, attrs, single[i])
			}
		}
		if err != wholeErr {
			t.Fatalf("as entries: %v, whole: %v", err, wholeErr)
		}
	})
}

func FuzzInit(f *testing.F)          { fuzzMessage(f, &initPacket{}) }
func FuzzInitReply(f *testing.F)     { fuzzMessage(f, &initReplyPacket{}) }
func FuzzHandleRequest(f *testing.F) { fuzzMessage(f, &HandleRequest{Type: TypeClose}) }
func FuzzPathRequest(f *testing.F)   { fuzzMessage(f, &PathRequest{Type: TypeStat}) }
func FuzzPathAttrs(f *testing.F)     { fuzzMessage(f, &PathAttrs{Type: TypeSetstat}) }
func FuzzFsetstat(f *testing.F)      { fuzzMessage(f, &Fsetstat{}) }
func FuzzRename(f *testing.F)        { fuzzMessage(f, &Rename{}) }
func FuzzSymlink(f *testing.F)       { fuzzMessage(f, &Symlink{}) }
func FuzzOpen(f *testing.F)          { fuzzMessage(f, &Open{}) }
func FuzzRead(f *testing.F)          { fuzzMessage(f, &Read{}) }
func FuzzWrite(f *testing.F)         { fuzzMessage(f, &Write{}) }

func FuzzStatus(f *testing.F)     { fuzzMessage(f, &Status{}) }
func FuzzHandle(f *testing.F)     { fuzzMessage(f, &Handle{}) }
func FuzzData(f *testing.F)       { fuzzMessage(f, &Data{}) }
func FuzzAttrsReply(f *testing.F) { fuzzMessage(f, &AttrsReply{}) }
func FuzzNames(f *testing.F)      { fuzzMessage(f, &Names{}) }

func FuzzExtended(f *testing.F)         { fuzzMessage(f, &Extended{}) }
func FuzzExtendedReply(f *testing.F)    { fuzzMessage(f, &ExtendedReply{}) }
func FuzzExtendedPath(f *testing.F)     { fuzzMessage(f, &ExtendedPath{Name: ExtStatVFS}) }
func FuzzExtendedHandle(f *testing.F)   { fuzzMessage(f, &ExtendedHandle{Name: ExtFsync}) }
func FuzzPosixRename(f *testing.F)      { fuzzMessage(f, &PosixRename{}) }
func FuzzHardlink(f *testing.F)         { fuzzMessage(f, &Hardlink{}) }
func FuzzLsetstat(f *testing.F)         { fuzzMessage(f, &Lsetstat{}) }
func FuzzCopyData(f *testing.F)         { fuzzMessage(f, &CopyData{}) }
func FuzzLimitsReply(f *testing.F)      { fuzzMessage(f, &LimitsReply{}) }
func FuzzStatVFSReply(f *testing.F)     { fuzzMessage(f, &StatVFSReply{}) }
func FuzzUsersGroupsByID(f *testing.F)  { fuzzMessage(f, &UsersGroupsByID{}) }
func FuzzUsersGroupsReply(f *testing.F) { fuzzMessage(f, &UsersGroupsReply{}) }
func FuzzCheckFile(f *testing.F)        { fuzzMessage(f, &CheckFile{Name: ExtCheckFileHandle}) }
func FuzzCheckFileReply(f *testing.F)   { fuzzMessage(f, &CheckFileReply{}) }
func FuzzChunks(f *testing.F)           { fuzzMessage(f, &Chunks{}) }
func FuzzBeneath(f *testing.F)          { fuzzMessage(f, &Beneath{}) }
func FuzzChunksReply(f *testing.F)      { fuzzMessage(f, &ChunksReply{}) }

func FuzzPutFiles(f *testing.F) {
	fuzzFiles(f, func() fileOfRequest { return &PutFile{} }, &PutFile{Path: "/f", Temporary: "t",
		Flags: PutFsync, Created: Attrs{Flags: AttrPermissions, Permissions: 0o600},
		Set: Attrs{Flags: AttrACModTime, MTime: 1}, Data: []byte("text")})
}

func FuzzGetFiles(f *testing.F) {
	fuzzFiles(f, func() fileOfRequest { return &GetFile{} }, &GetFile{Path: "/f", Size: LargestFile})
}

func FuzzFileStatus(f *testing.F) {
	fuzzFiles(f, func() fileOfRequest { return &FileStatus{} }, &FileStatus{},
		&FileStatus{Code: Failure, Message: "no"})
}

func FuzzGotFiles(f *testing.F) {
	fuzzFiles(f, func() fileOfRequest { return &GotFile{} },
		&GotFile{Data: []byte("text"), Attrs: Attrs{Flags: AttrSize, Size: 4}},
		&GotFile{FileStatus: FileStatus{Code: NoSuchFile, Message: "no"}})
}

// fileOfRequest is one file of a request for several, or of its reply.
type fileOfRequest interface {
	Append(b []byte) []byte
	Parse(payload []byte) (rest []byte, err error)
}

// fuzzFiles parses files from bytes until nothing is left. What is accepted must be shorter than
// what was left before, and be appended and parsed again to the same file.
func fuzzFiles(f *testing.F, blank func() fileOfRequest, seeds ...fileOfRequest) {
	var all []byte
	for _, seed := range seeds {
		all = seed.Append(all)
		f.Add(all)
		f.Add(all[:len(all)-1])
	}
	f.Fuzz(func(t *testing.T, payload []byte) {
		for rest := payload; len(rest) > 0; {
			first, second := blank(), blank()
			after, err := first.Parse(rest)
			if err != nil {
				if !errors.Is(err, ErrShort) {
					t.Fatalf("error of an unknown kind: %v", err)
				}
				return
			}
			if len(after) >= len(rest) {
				t.Fatalf("nothing was taken of % x", rest)
			}
			rest = after
			left, err := second.Parse(first.Append(nil))
			if err != nil || len(left) > 0 || !reflect.DeepEqual(first, second) {
				t.Fatalf("%+v came back as %+v, %v", first, second, err)
			}
		}
	})
}
