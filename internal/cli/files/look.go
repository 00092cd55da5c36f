package files

import (
	"context"
	"errors"

	"github.com/spf13/pflag"

	"github.com/usftp/usftp/internal/cli/verb"
)

func status() *spec {
	var o verb.StatusOptions
	var printf string
	return &spec{
		use: "stat [flags] HOST:PATH...", short: "print what is known of files",
		long: `Prints the attributes of files on hosts, as stat does.

SFTP has no inodes, devices, link counts, blocks, times of birth or of change. The
letters of -c are %n %N %s %a %A %f %F %u %g %U %G %x %X %y %Y and %%; all others of
stat's give "?".`,
		examples: `  usftp stat host:file
  usftp stat -c '%a %U %n' 'host:*'`,
		least: 1,
		register: func(f *pflag.FlagSet) {
			f.BoolVarP(&o.Follow, "dereference", "L", false, "follow links")
			f.StringVarP(&o.Format, "format", "c", "", "print this `format` and a line break for each")
			f.StringVar(&printf, "printf", "", "like -c, without the line break, and with escapes such as \\n")
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
		run: func(ctx context.Context, env *verb.Env, names []string) error {
			return verb.Status(ctx, env, o, names)
		},
	}
}

func space() *spec {
	var o verb.SpaceOptions
	return &spec{
		use: "df [flags] HOST:PATH...", short: "print the free space of file systems",
		long: `Prints how much space the file systems of files on hosts have, as df does. It needs a
server that offers statvfs@openssh.com. That tells neither the device nor where it is
mounted, so the host and the operand are printed instead.`,
		examples: `  usftp df -h host: host:/srv`,
		least:    1,
		register: func(f *pflag.FlagSet) {
			f.BoolVarP(&o.Human, "human-readable", "h", false, "sizes such as 1.5G")
			f.BoolVarP(&o.Inodes, "inodes", "i", false, "inodes instead of space")
		},
		run: func(ctx context.Context, env *verb.Env, names []string) error {
			return verb.Space(ctx, env, o, names)
		},
	}
}

func diskUsage() *spec {
	o := verb.DiskUsageOptions{}
	return &spec{
		use: "du [flags] HOST:PATH...", short: "print the sizes of trees",
		long: `Prints the sizes of directories on hosts with all they hold, as du --apparent-size does:
in units of 1024 bytes, rounded up.

SFTP has no numbers of blocks, so holes count and small files take no whole block, and
no inodes, so a file with several names counts for each.`,
		examples: `  usftp du -sh host:photos host:/var/log
  usftp du -h -d 1 host: | sort -h`,
		least: 1,
		register: func(f *pflag.FlagSet) {
			f.BoolVarP(&o.Summarize, "summarize", "s", false, "only a total for each operand")
			f.BoolVarP(&o.Human, "human-readable", "h", false, "sizes such as 1.5M")
			f.BoolVarP(&o.All, "all", "a", false, "files too, not only directories")
			f.BoolVarP(&o.Bytes, "bytes", "b", false, "sizes in bytes")
			f.BoolVarP(&o.Total, "total", "c", false, "a grand total at the end")
			f.IntVarP(&o.Depth, "max-depth", "d", -1, "print directories down to `n` levels")
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
		run: func(ctx context.Context, env *verb.Env, names []string) error {
			return verb.DiskUsage(ctx, env, o, names)
		},
	}
}
