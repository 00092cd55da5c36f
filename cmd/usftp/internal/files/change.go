package files

import (
	"errors"
	"time"

	"github.com/spf13/pflag"

	"github.com/usftp/usftp/cmd/usftp/internal/connect"
	"github.com/usftp/usftp/cmd/usftp/internal/verb"
	"github.com/usftp/usftp/dial"
)

const elsewhere = "; usftp cp copies between hosts"

func move() *spec {
	var o verb.MoveOptions
	return &spec{
		use: "mv [flags] HOST:SRC... HOST:DST", short: "rename and move files on a host",
		long: `Renames files on one host, or moves them to a directory, as mv does. An existing file is
replaced in one step if the server can do that (posix-rename@openssh.com). Otherwise it
first steps aside, and gets its name back if the new file cannot have it.

SFTP cannot move files between file systems: copy them with usftp cp -r, and remove them
with usftp rm.`,
		examples: `  usftp mv host:draft.txt host:final.txt
  usftp mv 'host:in/*.csv' host:done/`,
		least: 2, acts: true, literal: lastLiteral, oneHost: elsewhere,
		register: func(f *pflag.FlagSet) {
			choice(f, "force", "f", "do not ask (the default); the last of -f, -i and -n counts",
				func(on bool) { o.Interactive, o.NoClobber = o.Interactive && !on, o.NoClobber && !on })
			choice(f, "interactive", "i", "ask before replacing an existing file",
				func(on bool) { o.Interactive, o.NoClobber = on, o.NoClobber && !on })
			choice(f, "no-clobber", "n", "do not replace an existing file",
				func(on bool) { o.NoClobber, o.Interactive = on, o.Interactive && !on })
			f.BoolVarP(&o.NoDirectory, "no-target-directory", "T", false,
				"treat DST as the new name, even if it is a directory")
		},
		run: with(verb.Move, &o),
	}
}

func makeDirectory() *spec {
	var o verb.MakeDirectoryOptions
	return &spec{
		use: "mkdir [flags] HOST:PATH...", short: "make directories",
		long:     `Makes directories on hosts, as mkdir does.`,
		examples: `  usftp mkdir -p host:/srv/www/img`,
		least:    1, acts: true, literal: allLiteral, directories: true,
		again: func() (ok, changes bool) { return o.Parents, true },
		register: func(f *pflag.FlagSet) {
			f.BoolVarP(&o.Parents, "parents", "p", false,
				"make missing parents too; existing directories are no error")
			f.StringVarP(&o.Mode, "mode", "m", "", "set this `mode`, as chmod does")
		},
		take: func(f *pflag.FlagSet, args []string) (_ []string, err error) {
			if f.Changed("mode") {
				err = verb.CheckMode(o.Mode)
			}
			return args, err
		},
		run: with(verb.MakeDirectory, &o),
	}
}

func removeDirectory() *spec {
	var o verb.RemoveDirectoryOptions
	return &spec{
		use: "rmdir [flags] HOST:PATH...", short: "remove empty directories",
		long:     `Removes empty directories on hosts, as rmdir does.`,
		examples: `  usftp rmdir host:old`,
		least:    1, acts: true, directories: true,
		register: func(f *pflag.FlagSet) {
			f.BoolVarP(&o.Parents, "parents", "p", false, "remove the parents named in PATH too")
		},
		run: with(verb.RemoveDirectory, &o),
	}
}

func link() *spec {
	var o verb.LinkOptions
	s := &spec{
		use: "ln [flags] HOST:TARGET... HOST:LINK", short: "make links",
		long: `Makes links on a host, as ln does: LINK, or a link to each TARGET in the directory LINK.

With -s, TARGET need not exist and becomes the text of the link, without "host:". A
relative TARGET starts at the link's directory. Hard links need a server that offers
hardlink@openssh.com.`,
		examples: `  usftp ln -s releases/42 host:current
  usftp ln -sfn releases/43 host:current
  usftp ln host:a host:b`,
		least: 2, acts: true, literal: allLiteral, oneHost: elsewhere,
		register: func(f *pflag.FlagSet) {
			f.BoolVarP(&o.Symbolic, "symbolic", "s", false,
				"make symbolic links instead of hard links")
			f.BoolVarP(&o.Force, "force", "f", false, "replace an existing LINK")
			f.BoolVarP(&o.NoFollow, "no-dereference", "n", false,
				"if LINK is a symbolic link to a directory, treat it as a file")
			f.BoolVarP(&o.NoDirectory, "no-target-directory", "T", false,
				"treat LINK as a file, even if it is a directory")
		},
		run: with(verb.Link, &o),
	}
	// With -s a target without a host is text; it is assigned to the link's host.
	s.place = func(arg string, last bool) (connect.Place, error) {
		p, err := connect.ParsePlace(arg)
		if o.Symbolic && !last && (err != nil || !p.Remote) {
			if arg == "" {
				return p, errors.New("empty operand")
			}
			return connect.Place{Typed: arg, Remote: true, Target: dial.Target{Host: anyHost,
				Path: arg}}, nil
		}
		return p, err
	}
	return s
}

func changeMode() *spec {
	var o verb.ChangeModeOptions
	return &spec{
		use: "chmod [flags] MODE HOST:PATH...", short: "change permissions",
		long: `Changes permissions of files on hosts, as chmod does. MODE is octal, or symbolic such as
u+rwX,go-w. Where no class is named, as in "+w", this machine's umask applies: SFTP does
not reveal the host's.

A symbolic link given as an operand is followed; those below a directory are left alone.`,
		examples: `  usftp chmod 640 host:secret.txt
  usftp chmod -R u+rwX,go= host:private`,
		least: 1, skip: 1, acts: true, again: func() (ok, changes bool) {
			return verb.Idempotent(o.Mode), true
		},
		register: func(f *pflag.FlagSet) {
			f.BoolVarP(&o.Recursive, "recursive", "R", false,
				"change directories and everything below them")
		},
		take: func(_ *pflag.FlagSet, args []string) ([]string, error) {
			if len(args) < 2 {
				return nil, errors.New("missing operand: chmod needs a mode and a file, such as host:path")
			}
			o.Mode = args[0]
			return args[1:], verb.CheckMode(o.Mode)
		},
		run: with(verb.ChangeMode, &o),
	}
}

func changeOwner() *spec {
	var o verb.ChangeOwnerOptions
	return &spec{
		use: "chown [flags] OWNER[:GROUP] HOST:PATH...", short: "change owners",
		long: `Changes the owner and group of files on hosts, as chown does. ":GROUP" changes only the
group.

SFTP sets owners by number. Names work if the server translates numbers to names
(users-groups-by-id@openssh.com, in OpenSSH 8.9 and newer). usftp tries the numbers that
the name has in the host's /etc/passwd or /etc/group and on this machine, then all below
65536, for two seconds at most. If that finds none, or the server does not translate,
give a number.`,
		examples: `  usftp chown www-data:www-data host:/srv/www
  usftp chown -R 1000:1000 host:/srv/data`,
		least: 1, skip: 1, acts: true, again: func() (ok, changes bool) { return true, true },
		register: func(f *pflag.FlagSet) {
			f.BoolVarP(&o.Recursive, "recursive", "R", false,
				"change directories and everything below them")
			f.BoolVarP(&o.NoFollow, "no-dereference", "h", false,
				"change links given as operands, not what they point to")
		},
		take: func(_ *pflag.FlagSet, args []string) ([]string, error) {
			if len(args) < 2 {
				return nil, errors.New("missing operand: chown needs an owner and a file, such as host:path")
			}
			o.Owner = args[0]
			return args[1:], nil
		},
		run: with(verb.ChangeOwner, &o),
	}
}

func touch() *spec {
	var o verb.TouchOptions
	var date, stamp string
	return &spec{
		use: "touch [flags] HOST:PATH...", short: "set file times, and create empty files",
		long: `Sets the times of files on hosts to now, or to the given time, and creates files that do
not exist, as touch does. Times are whole seconds. "Now" is by this machine's clock, since
SFTP cannot tell the server to use its own.`,
		examples: `  usftp touch host:ready
  usftp touch -d '2026-01-31 12:00' host:report.pdf`,
		least: 1, acts: true, again: func() (ok, changes bool) { return true, true },
		register: func(f *pflag.FlagSet) {
			f.BoolVarP(&o.NoCreate, "no-create", "c", false, "do not create files")
			f.BoolVarP(&o.Access, "access", "a", false, "set only the access time")
			f.BoolVarP(&o.Modify, "modify", "m", false, "set only the modification time")
			f.StringVarP(&date, "date", "d", "",
				"use this `time` instead of now: 2026-01-31, 2026-01-31 12:00:00, RFC 3339 or @seconds")
			f.StringVarP(&stamp, "stamp", "t", "",
				"use this time instead of now: `[[CC]YY]MMDDhhmm[.ss]`")
		},
		take: func(f *pflag.FlagSet, args []string) (_ []string, err error) {
			switch dated, stamped := f.Changed("date"), f.Changed("stamp"); {
			case dated && stamped:
				err = errors.New("-d and -t cannot be combined")
			case dated:
				o.Time, err = verb.ParseDate(date)
			case stamped:
				o.Time, err = verb.ParseStamp(stamp, time.Now())
			}
			return args, err
		},
		run: with(verb.Touch, &o),
	}
}
