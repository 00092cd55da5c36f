package files

import (
	"errors"

	"github.com/spf13/pflag"

	"github.com/usftp/usftp/cmd/usftp/internal/verb"
)

func status() *spec {
	var o verb.StatusOptions
	var printf string
	return &spec{
		use: "stat [flags] HOST:PATH...", short: "print file attributes",
		long: `Prints the attributes of files on hosts, as stat does.

SFTP has no inodes, devices, link counts, blocks, birth times or change times. -c
knows %n %N %s %a %A %f %F %u %g %U %G %x %X %y %Y and %%; stat's other letters print
"?".`,
		examples: `  usftp stat host:file
  usftp stat -c '%a %U %n' 'host:*'`,
		least: 1,
		register: func(f *pflag.FlagSet) {
			f.BoolVarP(&o.Follow, "dereference", "L", false, "follow symbolic links")
			f.StringVarP(&o.Format, "format", "c", "",
				"print in this `format`, with a line break after each file")
			f.StringVar(&printf, "printf", "",
				"like -c, with escapes in `format` such as \\n, and no line break after each file")
		},
		take: func(_ *pflag.FlagSet, args []string) ([]string, error) {
			if printf != "" {
				if o.Format != "" {
					return nil, errors.New("-c and --printf cannot be combined")
				}
				o.Format, o.Plain = printf, true
			}
			return args, nil
		},
		run: with(verb.Status, &o),
	}
}

func space() *spec {
	var o verb.SpaceOptions
	return &spec{
		use: "df [flags] HOST:PATH...", short: "print the free space on file systems",
		long: `Prints the size of the file system that each operand is on, and how much of it is used
and free, as df does. The server must offer statvfs@openssh.com, which reports neither
the device nor the mount point: the host and the operand are printed instead.`,
		examples: `  usftp df -h host: host:/srv`,
		least:    1,
		register: func(f *pflag.FlagSet) {
			f.BoolVarP(&o.Human, "human-readable", "h", false, "print sizes such as 1.5G")
			f.BoolVarP(&o.Inodes, "inodes", "i", false, "print inode counts instead of space")
			kibibytes(f)
		},
		run: with(verb.Space, &o),
	}
}

// kibibytes adds the flag that scripts give df and du, as POSIX demands.
func kibibytes(f *pflag.FlagSet) {
	f.BoolP("kilobytes", "k", false, "print sizes in units of 1024 bytes, as without it")
}

func diskUsage() *spec {
	var o verb.DiskUsageOptions
	return &spec{
		use: "du [flags] HOST:PATH...", short: "print the sizes of directory trees",
		long: `Prints the size of each directory on hosts, with everything below it, as du
--apparent-size does: in units of 1024 bytes, rounded up.

SFTP has no block counts, so holes count in full, and small files do not fill a block. It
has no inode numbers, so a file with several names counts once for each.`,
		examples: `  usftp du -sh host:photos host:/var/log
  usftp du -h -d 1 host: | sort -h`,
		least: 1,
		register: func(f *pflag.FlagSet) {
			f.BoolVarP(&o.Summarize, "summarize", "s", false, "print only a total for each operand")
			f.BoolVarP(&o.Human, "human-readable", "h", false, "print sizes such as 1.5M")
			f.BoolVarP(&o.All, "all", "a", false, "print files too, not only directories")
			f.BoolVarP(&o.Bytes, "bytes", "b", false, "print sizes in bytes")
			f.BoolVarP(&o.Total, "total", "c", false, "print a grand total at the end")
			kibibytes(f)
			f.Bool("apparent-size", false,
				"accepted for compatibility with du; sizes are always apparent sizes")
			f.IntVarP(&o.Depth, "max-depth", "d", -1,
				"print only what is at most `n` levels below an operand")
		},
		take: func(f *pflag.FlagSet, args []string) ([]string, error) {
			switch {
			case f.Changed("max-depth") && o.Depth < 0:
				return nil, errors.New("-d must not be negative")
			case o.Summarize && o.All:
				return nil, errors.New("-s and -a cannot be combined")
			case o.Summarize && o.Depth > 0:
				return nil, errors.New("-s and -d cannot be combined")
			}
			return args, nil
		},
		run: with(verb.DiskUsage, &o),
	}
}
