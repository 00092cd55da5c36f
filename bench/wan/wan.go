// Package wan makes long links on one machine: two network namespaces whose packets a relay in this
// process carries with a delay, at a rate, through a queue and with a loss. Real TCP of the real
// kernel runs over them.
//
// A program calls Enter first, which starts it again inside namespaces where it may make links,
// also without root. Each link is a pair of namespaces of its own, so any number can exist at a
// time, all with the same addresses. They have no names, and end with the program however it ends.
// Linux only; needs /dev/net/tun.
package wan

import (
	"errors"
	"math/rand/v2"
	"net/netip"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// The addresses of the two sides of every link.
var (
	ClientAddress = netip.AddrFrom4([4]byte{10, 99, 0, 1})
	ServerAddress = netip.AddrFrom4([4]byte{10, 99, 0, 2})
)

// Config describes a link, the same in both directions. The zero value is a link without delay or
// limits.
type Config struct {
	// RTT is the time there and back without a queue.
	RTT time.Duration
	// Rate is in bits a second; 0 is without limit.
	Rate float64
	// Flow is in bits a second, of one connection; 0 is without limit.
	Flow float64
	// Queue is the number of bytes that may wait for their turn, beyond which packets are dropped;
	// 0 is what the link holds in one RTT, and at least 1 MiB.
	Queue int
	// Loss is the probability of a packet's loss, from 0 to 1.
	Loss float64
	// MTU is the largest packet in bytes; 0 is 1500.
	MTU int
	// SinglePackets turns off the kernel's handing over of segments in runs, which it does only
	// without Loss. A queue then overflows packet by packet and not by the run, at several times
	// the processor time.
	SinglePackets bool
}

func (c Config) withDefaults() Config {
	if c.Queue == 0 {
		c.Queue = max(int(c.Rate/8*c.RTT.Seconds()), 1<<20)
	}
	if c.MTU == 0 {
		c.MTU = 1500
	}
	return c
}

// Link is a link that is up.
type Link struct {
	Client, Server *Side

	devices []*os.File
	carried atomic.Int64
	relays  sync.WaitGroup
}

// New brings a link up.
func New(config Config) (*Link, error) {
	config = config.withDefaults()
	link := &Link{}
	for _, side := range []struct {
		end     **Side
		address netip.Addr
	}{{&link.Client, ClientAddress}, {&link.Server, ServerAddress}} {
		end, err := newSide(side.address)
		if err != nil {
			return nil, errors.Join(err, link.Close())
		}
		*side.end = end
		err = end.Do(func() error {
			device, err := openTUN(side.address, config.MTU,
				config.Loss == 0 && !config.SinglePackets)
			if err == nil {
				link.devices = append(link.devices, device)
			}
			return err
		})
		if err != nil {
			return nil, errors.Join(err, link.Close())
		}
	}
	link.start(config, 0, 1)
	link.start(config, 1, 0)
	return link, nil
}

func (l *Link) start(config Config, from, to int) {
	s := &shaper{
		delay: config.RTT / 2,
		rate:  config.Rate,
		flow:  config.Flow,
		queue: config.Queue,
		loss:  config.Loss,
		// The same losses in each run, so that two contestants meet the same link.
		random: rand.New(rand.NewPCG(uint64(from), 99)),
	}
	l.relays.Go(func() { relay(l.devices[from], l.devices[to], s, &l.carried) })
}

// Carried returns how many bytes the link has carried so far in both directions, with the headers
// of IP and TCP.
func (l *Link) Carried() int64 { return l.carried.Load() }

// Close takes the link down and kills the commands started on its sides.
func (l *Link) Close() error {
	var errs []error
	for _, device := range l.devices {
		errs = append(errs, device.Close())
	}
	l.relays.Wait()
	for _, side := range []*Side{l.Client, l.Server} {
		if side != nil {
			side.close()
		}
	}
	return errors.Join(errs...)
}
