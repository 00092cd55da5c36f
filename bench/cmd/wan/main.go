// Wan runs a command at one end of a long link, and a server at the other.
//
//	wan -rtt 100ms -rate 1e9 -server 'iperf3 -s -1' -port 5201 -- iperf3 -c 10.99.0.2
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"time"

	"github.com/usftp/usftp/bench/wan"
)

type options struct {
	link    wan.Config
	server  string
	port    int
	timeout time.Duration
}

func main() {
	var o options
	flag.DurationVar(&o.link.RTT, "rtt", 100*time.Millisecond, "round-trip time")
	flag.Float64Var(&o.link.Rate, "rate", 1e9, "bits a second; 0 is without limit")
	flag.Float64Var(&o.link.Flow, "flow", 0, "bits a second of one connection; 0 is without limit")
	flag.IntVar(&o.link.Queue, "queue", 0,
		"bytes that may wait; 0 is one round trip's worth, at least 1 MiB")
	flag.Float64Var(&o.link.Loss, "loss", 0, "probability of a packet's loss")
	flag.IntVar(&o.link.MTU, "mtu", 1500, "largest packet in bytes")
	flag.BoolVar(&o.link.SinglePackets, "single-packets", false, "never carry segments in runs")
	flag.StringVar(&o.server, "server", "",
		"shell command to run at the server's end, "+wan.ServerAddress.String())
	flag.IntVar(&o.port, "port", 0,
		"TCP port on which the server must listen before the command starts")
	flag.DurationVar(&o.timeout, "timeout", 10*time.Minute, "end everything after this")
	flag.Usage = func() {
		fmt.Fprintf(os.Stderr, "usage: wan [flags] -- command [argument...]\nThe command runs at the client's end, %s.\n", wan.ClientAddress)
		flag.PrintDefaults()
	}
	flag.Parse()
	if flag.NArg() == 0 {
		flag.Usage()
		os.Exit(2)
	}
	err := wan.Enter(o.timeout)
	if err == nil {
		err = run(o, flag.Args())
	}
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit) && exit.ExitCode() > 0:
		os.Exit(exit.ExitCode())
	case err != nil:
		fmt.Fprintln(os.Stderr, "wan:", err)
		os.Exit(1)
	}
}

func run(o options, arguments []string) error {
	link, err := wan.New(o.link)
	if err != nil {
		return err
	}
	defer link.Close()
	if o.server != "" {
		server := exec.Command("sh", "-c", o.server)
		server.Stdout, server.Stderr = os.Stderr, os.Stderr
		if err := link.Server.Start(server); err != nil {
			return err
		}
		// The PID namespace ends with it.
	}
	if o.port != 0 {
		if err := link.Server.AwaitListener(o.port, 20*time.Second); err != nil {
			return fmt.Errorf("server on port %d: %w", o.port, err)
		}
	}
	client := exec.Command(arguments[0], arguments[1:]...)
	client.Stdin, client.Stdout, client.Stderr = os.Stdin, os.Stdout, os.Stderr
	if err := link.Client.Start(client); err != nil {
		return err
	}
	return client.Wait()
}
