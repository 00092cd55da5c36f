package wire

import (
	"io/fs"
	"testing"
)

func TestModes(t *testing.T) {
	for _, c := range []struct {
		permissions uint32
		mode        fs.FileMode
	}{
		{0o100644, 0o644},
		{0o100000, 0},
		{0o100777, 0o777},
		{0o104755, fs.ModeSetuid | 0o755},
		{0o102755, fs.ModeSetgid | 0o755},
		{0o101644, fs.ModeSticky | 0o644},
		{0o107777, fs.ModeSetuid | fs.ModeSetgid | fs.ModeSticky | 0o777},
		{0o040755, fs.ModeDir | 0o755},
		{0o041777, fs.ModeDir | fs.ModeSticky | 0o777},
		{0o042770, fs.ModeDir | fs.ModeSetgid | 0o770},
		{0o120777, fs.ModeSymlink | 0o777},
		{0o060660, fs.ModeDevice | 0o660},
		{0o020620, fs.ModeDevice | fs.ModeCharDevice | 0o620},
		{0o010600, fs.ModeNamedPipe | 0o600},
		{0o140755, fs.ModeSocket | 0o755},
		{0o150644, fs.ModeIrregular | 0o644},
	} {
		if got := FileMode(c.permissions); got != c.mode {
			t.Errorf("FileMode(%#o) is %v, want %v", c.permissions, got, c.mode)
		}
		if got := Permissions(c.mode); got != c.permissions {
			t.Errorf("Permissions(%v) is %#o, want %#o", c.mode, got, c.permissions)
		}
		if got, want := PermissionBits(c.mode), c.permissions&0o7777; got != want {
			t.Errorf("PermissionBits(%v) is %#o, want %#o", c.mode, got, want)
		}
	}
}

func TestModesThatDoNotComeBack(t *testing.T) {
	for _, c := range []struct {
		name        string
		permissions uint32
		mode        fs.FileMode
		back        uint32
	}{
		{"no type, as of a server that sends permissions alone", 0o644, 0o644, 0o100644},
		{"a type that nobody knows", 0o160644, fs.ModeIrregular | 0o644, 0o150644},
		{"bits above st_mode", 0xffff0000 | 0o100644, 0o644, 0o100644},
	} {
		if got := FileMode(c.permissions); got != c.mode {
			t.Errorf("%s: FileMode(%#o) is %v, want %v", c.name, c.permissions, got, c.mode)
		}
		if got := Permissions(c.mode); got != c.back {
			t.Errorf("%s: Permissions(%v) is %#o, want %#o", c.name, c.mode, got, c.back)
		}
	}
	if got := Permissions(fs.ModeDir | fs.ModeIrregular | 0o777); got != 0o040777 {
		t.Errorf("a directory that Windows says more about: got %#o, want 040777", got)
	}
	// What is Go's alone is not for the wire.
	if got := Permissions(fs.ModeAppend | fs.ModeExclusive | fs.ModeTemporary | 0o600); got != 0o100600 {
		t.Errorf("Go's own bits: got %#o, want 0100600", got)
	}
}

func TestEveryModeComesBack(t *testing.T) {
	for _, kind := range []uint32{modeSocket, modeSymlink, modeRegular, modeBlock, modeDir,
		modeChar, modeFIFO} {
		for bits := uint32(0); bits <= 0o7777; bits++ {
			if p := kind | bits; Permissions(FileMode(p)) != p {
				t.Errorf("%#o became %v and came back as %#o", p, FileMode(p),
					Permissions(FileMode(p)))
			}
		}
	}
}
