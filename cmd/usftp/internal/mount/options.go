package mount

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/usftp/usftp/cmd/usftp/internal/opt"
)

// options are the mount options of -o.
type options struct {
	readOnly           bool
	allowOther         bool
	defaultPermissions bool
	idmap              string // "" if it was not given
	follow, transform  bool
	free               bool // links may lead out of the mount
	uid, gid, umask    *uint32
	cache              *time.Duration
	ssh, port, server  string
	fsName             string
	kernel             []string // passed on to the kernel
}

// refused are options of sshfs and other file systems that are not supported, with the reasons.
var refused = map[string]string{
	"suid":             "a host must not make local programs run as another user",
	"dev":              "a host must not provide device files",
	"allow_root":       "use allow_other, which checks permissions",
	"sshfs_sync":       "fsync and close report whether writes have reached the host",
	"direct_io":        "programs that map files would fail; use --cache=0 to ask the host each time",
	"auto_unmount":     "if usftp is killed, end its mount with usftp umount",
	"debug":            "use -f -vv",
	"sshfs_debug":      "use -f -vv",
	"sshfs_verbose":    "use -v",
	"modules":          "mount has no modules",
	"subdir":           "mount the directory itself: HOST:DIR",
	"rellinks":         "use transform_symlinks",
	"from_code":        "names are the host's, byte for byte",
	"to_code":          "names are the host's, byte for byte",
	"directport":       "use -S with a program that connects to the port",
	"password_stdin":   "use a key or an agent, or let usftp ask",
	"delay_connect":    "usftp connects first, so that errors are seen",
	"passive":          "use -D with the server's program",
	"slave":            "use -D with the server's program",
	"disable_hardlink": "hard links work as on the host",
	"uidfile":          "use idmap=user, uid= or gid=",
	"gidfile":          "use idmap=user, uid= or gid=",
	"nomap":            "use idmap=user, uid= or gid=",
	"writeback_cache":  "usftp buffers writes itself, and never reorders them with fsync",
	"ssh_protocol":     "there is only version 2",
}

// needless are options whose effect is the default here, or that are for other programs.
var needless = strings.Fields(`
	ac_attr_timeout async atime auto auto_cache big_writes cache_clean_interval
	cache_min_clean_interval dcache_clean_interval dcache_max_size dcache_min_clean_interval
	defaults diratime direct exec group hard_remove idmap_none iversion kernel_cache large_read
	lazytime loud mand max_conns max_read max_write _netdev no_check_root no_readahead
	no_rofd_flush noauto noauto_cache nodev nodiratime nofail noforget noiversion nolazytime
	nomand nonempty norelatime norellinks nostrictatime nosuid nouser nullpath_ok owner
	readdir_ino reconnect relatime remember rw silent strictatime subtype sync_readdir use_ino
	user users workaround`)

// parse reads the options of all -o flags and returns ssh_config's. After one of these, words that
// are not options belong to its value, which may contain commas.
func (o *options) parse(lists []string) (ssh []string, err error) {
	for _, list := range lists {
		inValue := false
		for option := range strings.SplitSeq(list, ",") {
			if isSSHOption(option) {
				ssh = append(ssh, option)
				inValue = true
				continue
			}
			err := o.set(option)
			if inValue && errors.Is(err, errUnknown) {
				ssh[len(ssh)-1] += "," + option
			} else if err != nil {
				return nil, err
			} else {
				inValue = false
			}
		}
	}
	return ssh, nil
}

// isSSHOption reports whether an option belongs to ssh_config: by convention those begin with a
// capital letter, but sshfs also accepts lower case. Without a value "user" is mount(8)'s.
func isSSHOption(option string) bool {
	first, _ := utf8.DecodeRuneInString(option)
	word, _, valued := strings.Cut(option, "=")
	return unicode.IsUpper(first) || word != "port" && valued && opt.IsSSHWord(word)
}

var errUnknown = errors.New("not known")

// set sets one mount option.
func (o *options) set(option string) error {
	name, value, _ := strings.Cut(option, "=")
	number := func(base int) (*uint32, error) {
		n, err := strconv.ParseUint(value, base, 32)
		if err != nil {
			return nil, fmt.Errorf("-o %s: %q is not a valid number", name, value)
		}
		return new(uint32(n)), nil
	}
	var err error
	switch name {
	case "":
	case "ro":
		o.readOnly = true
	case "allow_other":
		o.allowOther = true
	case "default_permissions":
		o.defaultPermissions = true
	case "follow_symlinks":
		o.follow = true
	case "contain_symlinks", "no_contain_symlinks":
		o.free = name == "no_contain_symlinks"
	case "transform_symlinks":
		o.transform = true
	case "idmap":
		if o.idmap = value; value != "user" && value != "none" {
			return fmt.Errorf("-o %s: only idmap=user and idmap=none are known; for others use uid= or gid=", option)
		}
	case "uid":
		o.uid, err = number(10)
	case "gid":
		o.gid, err = number(10)
	case "umask":
		o.umask, err = number(8)
	case "cache_timeout", "cache_stat_timeout", "cache_dir_timeout", "cache_link_timeout",
		"dcache_timeout", "dcache_stat_timeout", "dcache_dir_timeout", "dcache_link_timeout",
		"attr_timeout", "entry_timeout":
		seconds, perr := strconv.ParseFloat(value, 64)
		if perr != nil || seconds < 0 || seconds > 1e9 {
			return fmt.Errorf("-o %s: %q is not a valid number of seconds", name, value)
		}
		cache := time.Duration(seconds * float64(time.Second))
		if o.cache == nil || cache > *o.cache {
			o.cache = &cache
		}
	case "cache", "dir_cache", "dcache":
		if value == "no" {
			o.cache = new(time.Duration)
		}
	case "negative_timeout", "dcache_negative_timeout":
	case "ssh_command":
		o.ssh = value
	case "sftp_server":
		o.server = value
	case "port":
		o.port = value
		_, err = number(10)
	case "fsname":
		o.fsName = value
	case "noexec", "noatime", "sync", "dirsync":
		o.kernel = append(o.kernel, name)
	default:
		if reason := refused[name]; reason != "" {
			return fmt.Errorf("-o %s is not supported: %s", name, reason)
		}
		if slices.Contains(needless, name) || strings.HasPrefix(name, "x-") || strings.HasPrefix(name, "comment") {
			return nil
		}
		return fmt.Errorf("-o %s is %w", option, errUnknown)
	}
	return err
}

// mapsIfKnown reports whether the host user's files are shown as the local user's, if the host
// reports owners: a person who is not root expects files of their own, as does git.
func (o *options) mapsIfKnown(user int) bool {
	return user != 0 && o.idmap == "" && o.uid == nil && o.gid == nil
}
