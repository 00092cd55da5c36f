package files

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/usftp/usftp/cmd/usftp/internal/complete"
	"github.com/usftp/usftp/cmd/usftp/internal/verb"
)

func find() *spec {
	var expression *verb.Expression
	return &spec{
		use: "find HOST:PATH... [expression]", short: "search for files",
		long: `Searches directory trees on hosts, as GNU find does. The expression may use

  -name -iname PATTERN    -path -ipath PATTERN    -type f,d,l,p,s,b,c
  -size [+-]N[cwbkMG]     -empty                  -perm [-/]MODE
  -mtime -atime [+-]DAYS  -mmin -amin [+-]MINUTES -newer PATH -newermt DATE
  -user NAME -group NAME  -uid -gid [+-]N
  -print -print0 -ls -printf FORMAT -delete -prune -quit -true -false
  -exec PROGRAM ARGUMENT... \;    -exec PROGRAM ARGUMENT... {} +
  -maxdepth N -mindepth N -depth
  ( EXPR )   ! EXPR   EXPR -a EXPR   EXPR -o EXPR

with the same meaning as in GNU find. If the expression has no action, the files for
which it is true are printed. The entries of a directory are sorted by name; links are
not followed. usftp's own flags begin with two dashes, or have a letter and come before
the expression.

Ages are by this machine's clock, in whole seconds. SFTP has no change times, inodes,
link counts or blocks, so there are no tests for them. -user and -group accept numbers,
and names if the server sends names.

-exec runs a program on this machine, without a shell; it is true if the program ends
with exit code 0. {} is the file as HOST:PATH, the operand that usftp's commands and scp
take, with backslashes before characters that would make it a pattern. After {} + come
as many files at once as fit. If the connection is lost, a find with -exec ends, rather
than run programs twice.

-printf knows %p %f %h %P %H %d %y %l %s %m %M %u %g %U %G %t %a %% and times such as
%TY or %A@, and -ls prints what ls -l does.`,
		examples: `  usftp find host:logs -name '*.gz' -mtime +30 -delete
  usftp find host: -type f -size +100M
  usftp find host:logs -name '*.gz' -exec usftp cp {} . \;
  usftp find host:www -type f -printf '%TY-%Tm-%Td %s %p\n'`,
		least: 1, rawArguments: true,
		again: func() (ok, changes bool) { return !expression.Runs(), expression.Deletes() },
		take: func(f *pflag.FlagSet, args []string) (files []string, err error) {
			files, words, flags, err := splitFind(f, args)
			if err == nil {
				err = f.Parse(flags)
			}
			if err == nil && len(files) == 0 {
				err = errors.New("missing operand: find needs a directory, such as host:path")
			}
			if err == nil {
				expression, err = verb.ParseExpression(words)
			}
			return files, err
		},
		run: func(ctx context.Context, env *verb.Env, names []string) error {
			return verb.Find(ctx, env, expression, names)
		},
	}
}

// completeFind completes a command line of find: operands, primaries, and flags with two dashes.
func (c *command) completeFind(cmd *cobra.Command, args []string, word string) ([]string,
	cobra.ShellCompDirective) {
	f := cmd.Flags()
	_, words, flags, _ := splitFind(f, args)
	f.Parse(flags)
	last := ""
	if len(args) > 0 {
		last = args[len(args)-1]
	}
	none := cobra.ShellCompDirectiveNoFileComp
	switch n := verb.Primaries[last]; {
	case last == "-type":
		return complete.Matching([]string{"f", "d", "l", "p", "s", "b", "c"}, word), none
	case n > 0 && len(words) > 0:
		return nil, none
	case strings.HasPrefix(word, "--"):
		var names []string
		f.VisitAll(func(f *pflag.Flag) { names = append(names, "--"+f.Name) })
		return complete.Matching(names, word), none
	case strings.HasPrefix(word, "-") || len(words) > 0:
		return complete.Matching(slices.Sorted(maps.Keys(verb.Primaries)), word), none
	}
	return complete.Places{Connect: &c.flags.Connect, Directories: true}.Complete(word)
}

// splitFind splits a command line of find into operands, the words of the expression, and usftp's
// own flags. Flags with two dashes may stand anywhere except as an argument, flags with a letter
// only before the expression.
func splitFind(f *pflag.FlagSet, args []string) (files, words, flags []string, err error) {
	for i := 0; i < len(args); i++ {
		arg := args[i]
		name, isFlag := strings.CutPrefix(arg, "--")
		name, _, hasValue := strings.Cut(name, "=")
		switch n, primary := verb.Arguments(args[i:]); {
		case isFlag:
			flags = append(flags, arg)
			flag := f.Lookup(name)
			if flag != nil && !hasValue && flag.NoOptDefVal == "" && i+1 < len(args) {
				i++
				flags = append(flags, args[i])
			}
		case !primary && len(words) == 0 && ownLetter(f, arg) && !likeIdentity[arg]:
			flags = append(flags, arg)
			if len(arg) == 2 && f.ShorthandLookup(arg[1:]).NoOptDefVal == "" && i+1 < len(args) {
				i++
				flags = append(flags, args[i])
			}
		case primary:
			words = append(words, arg)
			for ; n > 0 && i+1 < len(args); n-- {
				i++
				words = append(words, args[i])
			}
		case strings.HasPrefix(arg, "-"):
			return nil, nil, nil, verb.UnknownPredicate(arg)
		case len(words) > 0:
			return nil, nil, nil, fmt.Errorf("operands come before the expression: %q", arg)
		default:
			files = append(files, arg)
		}
	}
	return files, words, flags, nil
}

// likeIdentity has the primaries of GNU find that we lack, and that look like -i with the name of a
// key.
var likeIdentity = map[string]bool{"-ignore_readdir_race": true, "-ilname": true, "-inum": true,
	"-iregex": true}

// ownLetter reports whether a word is a flag of ours by its letter.
func ownLetter(f *pflag.FlagSet, word string) bool {
	return len(word) > 1 && word[0] == '-' && f.ShorthandLookup(word[1:2]) != nil
}
