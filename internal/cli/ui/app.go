// Package ui is what every verb needs of the process: standard streams, the terminal, questions to a
// person, signals, exit codes, and text for people.
package ui

import "os"

// An App is one run of the command.
type App struct {
	Stdin   *os.File
	Stdout  *os.File
	Out     *output   // stdout, for what is printed
	Console *Console  // standard error
	restore *restorer // puts the terminal back
	Signals signalPlan
	Args    []string // as they were typed
	Label   int      // columns in front of each line that is printed: the host's name, among several

	// Turn is held by whoever asks the person something, so that an answer goes to the question
	// that is on the screen.
	Turn chan struct{}
}

// EnableEscapes has the terminal on standard output obey colours.
func (a *App) EnableEscapes() { enableEscapes(a.Stdout) }

func NewApp() *App {
	return &App{Stdin: os.Stdin, Stdout: os.Stdout, Out: &output{file: os.Stdout},
		Console: newConsole(os.Stderr), restore: new(restorer),
		Turn: make(chan struct{}, 1)}
}
