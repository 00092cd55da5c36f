package cmdline

import (
	"errors"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/usftp/usftp/internal/ui"
)

// shells are the shells that have completion.
var shells = map[string]script{
	"bash": {func(root *cobra.Command, w io.Writer) error { return root.GenBashCompletionV2(w, true) },
		2, bashQuoting},
	"zsh": {(*cobra.Command).GenZshCompletion, 5, zshQuoting},
	"fish": {func(root *cobra.Command, w io.Writer) error { return root.GenFishCompletion(w, true) },
		4, fishQuoting},
	"powershell": {(*cobra.Command).GenPowerShellCompletionWithDesc, -1, nil},
}

// A script is cobra's for a shell, with what is wrong with how it quotes words: names of files must
// not run as commands.
type script struct {
	print       func(root *cobra.Command, w io.Writer) error
	evaluates   int // places where it speaks of evaluation; -1 means any number
	corrections []correction
}

// A correction replaces what lies between two texts, the first included, or only the first if there
// is no second. NAME is the program's.
type correction struct{ from, to, ours string }

// write fails if another version of cobra has another script: it might run names.
func (s script) write(root *cobra.Command, w io.Writer) error {
	var theirs strings.Builder
	if err := s.print(root, &theirs); err != nil {
		return err
	}
	ours, err := s.correct(theirs.String(), root.Name())
	if err == nil {
		_, err = io.WriteString(w, ours)
	}
	return err
}

func (s script) correct(text, name string) (string, error) {
	known := s.evaluates < 0 ||
		strings.Count(text, "eval")+strings.Count(text, "(commandline ") == s.evaluates
	for _, c := range s.corrections {
		from, to := strings.ReplaceAll(c.from, "NAME", name), strings.ReplaceAll(c.to, "NAME", name)
		before, after, found := strings.Cut(text, from)
		end := strings.Index(after, to) // 0 if there is no second
		if !found || end < 0 || strings.Contains(after, from) {
			known = false
			break
		}
		text = before + strings.ReplaceAll(c.ours, "NAME", name) + after[end:]
	}
	if !known {
		return "", errors.New("this version of cobra has another script for this shell, which may run names of files as commands")
	}
	return text, nil
}

// bashQuoting: cobra's script for bash puts names into the command line as they are if several
// begin alike, and evaluates the line at the next Tab, so that a file's name such as "$(reboot)a"
// would run a command; and it completes nothing within a quote. Ours writes what is missing of the
// last word so that it means the name, in the quote that is open.
var bashQuoting = []correction{
	{`    # Use eval to handle any environment variables and such
    out=$(eval "${requestComp}" 2>/dev/null)
`, "", `    # Use eval to handle any environment variables and such
    local quote within closed
    __NAME_open_quote "${lastParam}"
    out=$(eval "${requestComp%"${lastParam}"}${closed}" 2>/dev/null)
`},
	{"__NAME_handle_completion_types() {\n", "__NAME_handle_special_char()\n",
		`# __NAME_open_quote sets quote to the one that is open at the end of a word, or to nothing; within to
# the text in it, or to all; and closed to the word with its end. A backslash that quotes nothing yet
# is left out.
__NAME_open_quote() {
    local i c
    quote='' within=$1 closed=$1
    for ((i = 0; i < ${#1}; i++)); do
        c=${1:i:1}
        case $quote$c in
        \\ | \"\\)
            if ((++i == ${#1})); then
                within=${within%\\} closed=${closed%\\}
            fi
            ;;
        \' | \") quote=$c within=${1:i+1} ;;
        \'\' | \"\") quote='' within=$1 ;;
        esac
    done
    closed+=$quote
}

# __NAME_in_quote sets text to how a text is written in the open quote. Within double quotes,
# interactive shells replace ! even after a backslash.
__NAME_in_quote() {
    text=$1
    case $quote in
    \')
        text=${text//\'/"'\\''"}
        ;;
    \")
        text=${text//\\/\\\\}
        text=${text//\"/\\\"}
        text=${text//\$/\\\$}
        text=${text//` + "\\`/\\\\\\`" + `}
        text=${text//\!/"\"'!'\""}
        ;;
    *)
        if [[ -n $text ]]; then
            printf -v text %q "$text"
        fi
        ;;
    esac
}

__NAME_handle_completion_types() {
    local comp text typed='' quote within closed longest=0 tab=$'\t'
    local alone=() described=()
    __NAME_open_quote "$cur"
    if [[ -n $closed ]]; then
        eval "printf -v typed %s ${closed}" 2>/dev/null
    fi
    for comp in "${completions[@]}"; do
        if [[ -z $comp || ${comp%%$tab*} != "$typed"* ]]; then
            continue
        fi
        text=${comp%%$tab*}
        __NAME_in_quote "${text#"$typed"}"
        alone+=("$within$text")
        described+=("$within$text${comp#"${comp%%$tab*}"}")
        if ((${#within} + ${#text} > longest)); then
            longest=$((${#within} + ${#text}))
        fi
    done
    COMPREPLY=("${alone[@]}")
    if ((${#alone[@]} > 1)) && [[ $COMP_TYPE != 37 && $COMP_TYPE != 42 ]]; then
        COMPREPLY=("${described[@]}")
        __NAME_format_comp_descriptions $longest
    fi
}

`},
}

// zshQuoting: cobra's script for zsh completes nothing within a quote, and makes one space of several
// in it; and _describe takes the backslashes out of what it is given, such as those that keep a name
// from being a pattern.
var zshQuoting = []correction{{`    words=("${=words[1,CURRENT]}")
`, "", `    words=("${(@)words[1,CURRENT]}")
`}, {`    # Use eval to handle any environment variables and such
    out=$(eval ${requestComp} 2>/dev/null)
`, "", `    # Use eval to handle any environment variables and such
    local quote c
    local -i i
    for ((i = 1; i <= ${#requestComp}; i++)); do
        c=${requestComp[i]}
        case $quote$c in
        (\\|\"\\) ((i++)) ;;
        (\'|\") quote=$c ;;
        (\'\'|\"\") quote= ;;
        esac
    done
    out=$(eval ${requestComp}${quote} 2>/dev/null)
`}, {`            comp=${comp//:/\\:}
`, "", `            comp=${comp//\\/\\\\}
            comp=${comp//:/\\:}
`}}

// fishQuoting: cobra's script for fish evaluates the words before the last without their quotes, so
// that a file's name such as "a;reboot" would run a command, and quotes the last one twice, so that
// nothing is found below a name with a space. Ours evaluates ~/ and a variable at the beginning of a
// word, which run nothing.
var fishQuoting = []correction{
	{"set -l args (commandline -opc)\n", "",
		`set -l args (commandline -opc | string escape | string replace -r '^(["\']?)~/' '~/$1'` +
			` | string replace -r '^\'\$(\w+)(/.*)?\'$' '"\$$1"\'$2\'')` + "\n"},
	{"(string escape -- (commandline -ct))", "",
		"(string escape -- (commandline -ct | string unescape))"},
	{"(commandline -t | string escape --style=regex)", "",
		"(commandline -t | string unescape | string escape --style=regex)"},
}

// Completion returns the command completion; long is its text.
func Completion(long string) *cobra.Command {
	return &cobra.Command{
		Use:       "completion bash|zsh|fish|powershell",
		Short:     "print a script that completes command lines in a shell",
		Long:      long,
		ValidArgs: []string{"bash", "zsh", "fish", "powershell"},
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 && shells[args[0]].print != nil {
				return shells[args[0]].write(cmd.Root(), cmd.OutOrStdout())
			}
			return &ui.UsageError{Err: errors.New(
				"completion needs a shell: bash, zsh, fish or powershell")}
		},
	}
}
