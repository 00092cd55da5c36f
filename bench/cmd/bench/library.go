package main

import (
	"errors"
	"fmt"
	"os"

	"github.com/usftp/usftp/bench/library"
	"github.com/usftp/usftp/bench/sshd"
)

// libraryMain moves one file with a library over x/crypto/ssh, as a whole command: login, transfer,
// close. The garbage collector stays as Go has it.
func libraryMain(arguments []string) (err error) {
	if len(arguments) != 4 || arguments[1] != "get" && arguments[1] != "put" {
		return errors.New("usage: bench library NAME get|put SOURCE TARGET")
	}
	lib, err := library.Named(arguments[0])
	if err != nil {
		return err
	}
	access := sshd.Access{Address: os.Getenv("ADDRESS"), Port: os.Getenv("PORT"),
		User: os.Getenv("USER"),
		Key:  os.Getenv("KEY"), KnownHosts: os.Getenv("KNOWN_HOSTS")}
	conn, err := access.Dial()
	if err != nil {
		return fmt.Errorf("login: %w", err)
	}
	defer conn.Close()
	client, err := lib.OverSSH(conn)
	if err != nil {
		return err
	}
	defer client.Close()
	if arguments[1] == "get" {
		return get(client, arguments[2], arguments[3])
	}
	return put(client, arguments[2], arguments[3])
}

func get(client library.Client, source, target string) error {
	remote, err := client.Open(source)
	if err != nil {
		return err
	}
	local, err := os.Create(target)
	if err != nil {
		return errors.Join(err, remote.Close())
	}
	_, err = remote.WriteTo(local)
	return errors.Join(err, local.Close(), remote.Close())
}

func put(client library.Client, source, target string) error {
	local, err := os.Open(source)
	if err != nil {
		return err
	}
	remote, err := client.Create(target)
	if err != nil {
		return errors.Join(err, local.Close())
	}
	_, err = remote.ReadFrom(local)
	return errors.Join(err, remote.Close(), local.Close())
}
