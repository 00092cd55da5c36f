// Package ui gives the commands access to the process: standard streams, the terminal, prompts,
// signals, exit codes, and text for people.
package ui

import "os"

// An App is one run of the command.
type App struct {
	Stdin     *os.File
	Stdout    *os.File
	Out       *output  // stdout, for printed results
	Console   *Console // standard error
	Signals   signalPlan
	*restorer          // puts the terminal back
	Args      []string // as typed
	Label     int      // columns taken by the host's name at the start of each line

	// Turn is held while a question is asked, so that an answer goes to the question on the screen.
	Turn chan struct{}
}

// EnableEscapes makes the terminal on standard output obey colours.
func (a *App) EnableEscapes() { enableEscapes(a.Stdout) }

// NewApp returns a run of the named program.
func NewApp(program string) *App {
	return &App{Stdin: os.Stdin, Stdout: os.Stdout, Out: &output{w: os.Stdout},
		Console: &Console{program: program, file: os.Stderr}, restorer: new(restorer),
		Turn: make(chan struct{}, 1)}
}
