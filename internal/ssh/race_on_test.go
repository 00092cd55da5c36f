//go:build race

package ssh_test

const raceEnabled = true
