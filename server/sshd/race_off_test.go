//go:build !race

package sshd

const raceEnabled = false
