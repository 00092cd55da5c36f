package cli

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/wire"
)

// tuning is what -X says, in scp's words. Neither is needed: what is in flight follows from the
// link, and the size of a request from the server.
type tuning struct {
	requests, buffer int64 // 0 where nothing is said
}

// sizeFlag is a flag that takes a number of bytes; 0 where nothing is said.
type sizeFlag int64

// Set takes a number with a unit, as 64MiB; 64M is taken as scp and others mean it.
func (s *sizeFlag) Set(text string) error {
	if n := len(text); n > 0 && strings.IndexByte("kmgKMG", text[n-1]) >= 0 {
		text = text[:n-1] + strings.ToUpper(text[n-1:]) + "iB"
	}
	size, err := parseSize(text)
	if err == nil {
		*s = sizeFlag(size)
	}
	return err
}

func (s *sizeFlag) String() string { return "" }

// Type names the value for the flag table.
func (s *sizeFlag) Type() string { return "size" }

// Set takes one -X.
func (t *tuning) Set(text string) error {
	word, value, _ := strings.Cut(text, "=")
	number := &t.requests
	switch strings.ToLower(word) {
	case "nrequests":
	case "buffer":
		number = &t.buffer
	default:
		return errors.New("it must be nrequests=n or buffer=n")
	}
	scale := int64(1)
	if number == &t.buffer && value != "" { // as scp takes it: 128k
		if unit := strings.IndexByte("km", value[len(value)-1]|0x20); unit >= 0 {
			scale = 1 << (10 * (unit + 1))
			value = value[:len(value)-1]
		}
	}
	n, err := strconv.ParseInt(value, 10, 32)
	if err != nil || n < 1 {
		return fmt.Errorf("%s takes a number from 1 on", strings.ToLower(word))
	}
	*number = n * scale
	return nil
}

func (t *tuning) String() string { return "" }

// Type names the value for the flag table.
func (t *tuning) Type() string { return "tuning" }

// options are the client's. One transfer takes at most half of what a client may have in flight.
func (t *tuning) options() (options []usftp.ClientOption) {
	request := int64(wire.MaxData)
	if t.buffer > 0 {
		request = min(t.buffer, request)
		options = append(options, usftp.WithMaxPacket(int(request)))
	}
	if t.requests > 0 {
		options = append(options, usftp.WithMaxInFlight(2*t.requests*request))
	}
	return options
}
