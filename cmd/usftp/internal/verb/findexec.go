package verb

import (
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"

	"github.com/usftp/usftp/internal/ui"
)

// An execution is the action -exec: a program that runs on this machine, without a shell. A server
// chooses the names of files, so these only become arguments: never the program, never text that a
// shell reads, and never a pattern to a program that takes operands as usftp does.
type execution struct {
	argv  []string
	files bool // it ends in {} +: as many files at once as fit
}

// placeholder stands for a file's name in the arguments of -exec.
const placeholder = "{}"

// Arguments returns how many arguments follow a primary at the beginning of words.
func Arguments(words []string) (n int, known bool) {
	n, known = Primaries[words[0]]
	if words[0] == "-exec" {
		for n = 1; n < len(words); n++ {
			if words[n] == ";" || words[n] == "+" && words[n-1] == placeholder {
				return n, true
			}
		}
	}
	return n, known
}

// execution parses the words after -exec.
func (p *expressionParser) execution() (expressionTest, error) {
	n, _ := Arguments(p.words[p.at-1:])
	end := p.at + n - 1
	if end >= len(p.words) {
		return nil, errors.New(`-exec needs a program, its arguments, and ";" or "{} +" at the end ` +
			`(in a shell: \;)`)
	}
	x := &execution{argv: slices.Clone(p.words[p.at:end]), files: p.words[end] == "+"}
	p.at = end + 1
	p.acts, p.e.runs = true, true
	if x.files {
		x.argv = x.argv[:len(x.argv)-1]
	}
	switch {
	case len(x.argv) == 0 || x.argv[0] == "":
		return nil, errors.New("-exec needs a program")
	case strings.Contains(x.argv[0], placeholder):
		return nil, errors.New("-exec: {} cannot be the program, which the host would choose")
	case x.files && slices.ContainsFunc(x.argv, func(arg string) bool {
		return strings.Contains(arg, placeholder)
	}):
		return nil, errors.New("-exec: there can be only one {} before +")
	}
	if _, err := exec.LookPath(x.argv[0]); err != nil {
		if e, ok := errors.AsType[*exec.Error](err); ok {
			err = e.Err
		}
		return nil, fmt.Errorf("-exec %s: %s", x.argv[0], ui.ReasonOf(err))
	}
	if ui.IsBatch(x.argv[0]) && (x.files || strings.Contains(strings.Join(x.argv, " "), placeholder)) {
		return nil, fmt.Errorf("-exec %s: in a batch file, a part of a file's name could run as a command",
			x.argv[0])
	}
	if x.files {
		return func(v *visit) bool { return v.untold(runOnIt) || v.collect(x) }, nil
	}
	return func(v *visit) bool {
		if v.untold(runOnIt) {
			return false
		}
		argv := slices.Clone(x.argv)
		for i := range argv[1:] {
			argv[i+1] = strings.ReplaceAll(argv[i+1], placeholder, v.operand())
		}
		return v.execute(argv) == nil
	}, nil
}

const runOnIt = "run a program on"

// operand returns how another command names the file.
func (v *visit) operand() string {
	if v.Operand == nil {
		return v.path
	}
	return v.Operand(v.path)
}

// execute runs a program, and returns its failure, which the program itself has reported. If the
// program cannot be run the verb ends, as it would fail for every file.
func (f *finder) execute(argv []string) error {
	if f.quit || f.over() {
		return f.stopped()
	}
	if f.flush(); f.over() { // so that its output comes after ours
		return f.stopped()
	}
	if f.Run == nil {
		f.stop(usage("-exec is not possible here"))
		return f.err
	}
	err := f.Run(f.ctx, argv)
	if err != nil && f.ctx.Err() == nil && !errors.As(err, new(*exec.ExitError)) {
		f.stop(fmt.Errorf("cannot run %s: %w", argv[0], err))
	}
	f.quit = f.over() // whether the file passes is unknown
	return err
}

// An argumentList holds the operands that will replace the {} of an execution.
type argumentList struct {
	execution *execution
	operands  []string
	bytes     int
}

// mostOperands and mostOperandBytes keep a command line below the limits of systems: 128 KiB of
// arguments and environment in POSIX's tools, and 32 KiB on Windows.
const (
	mostOperands     = 5000
	mostOperandBytes = 24 << 10
)

// collect carries out -exec with {} +. As in find it is always true; a failure sets the exit code.
func (v *visit) collect(x *execution) bool {
	if v.quit {
		return true
	}
	at := slices.IndexFunc(v.held, func(l *argumentList) bool { return l.execution == x })
	if at < 0 {
		at = len(v.held)
		v.held = append(v.held, &argumentList{execution: x})
	}
	list := v.held[at]
	operand := v.operand()
	if list.bytes+len(operand) > mostOperandBytes || len(list.operands) == mostOperands {
		v.runOn(list)
	}
	list.operands = append(list.operands, operand)
	list.bytes += len(operand) + 1
	return true
}

func (f *finder) runOn(list *argumentList) {
	if f.execute(append(slices.Clone(list.execution.argv), list.operands...)) != nil {
		f.code = max(f.code, 1)
	}
	list.operands, list.bytes = list.operands[:0], 0
}

// runRest runs the programs for the operands still collected for {} +.
func (f *finder) runRest() {
	f.quit = false
	for _, list := range f.held {
		f.runOn(list)
	}
}

// Runs reports whether the expression has -exec.
func (e *Expression) Runs() bool { return e.runs }
