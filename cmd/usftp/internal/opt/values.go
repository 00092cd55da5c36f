package opt

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/usftp/usftp"
	"github.com/usftp/usftp/internal/ui"
	"github.com/usftp/usftp/wire"
)

// SizeVar defines a flag for a number of bytes with a unit, such as 64MiB; 64M has the meaning that
// it has to scp and others.
func SizeVar(f *pflag.FlagSet, size *int64, name, usage string) {
	f.Func(name, usage, func(text string) (err error) {
		if n := len(text); n > 0 && strings.IndexByte("kmgKMG", text[n-1]) >= 0 {
			text = text[:n-1] + strings.ToUpper(text[n-1:]) + "iB"
		}
		*size, err = ui.ParseSize(text)
		return err
	})
}

// maxRate is scp's limit: 100 Gbit/s.
const maxRate = 100 << 30 / 8

// parseRate parses a rate and returns it in bytes per second. It takes scp's number of Kbit/s,
// which have 1024 bits, or a number with a unit of bits or bytes per second.
func parseRate(text string) (int64, error) {
	rate := strings.TrimSuffix(text, "/s")
	var bytes float64
	if n, err := strconv.ParseInt(rate, 10, 64); err == nil {
		bytes = float64(n) * 1024 / 8
	} else if number, ok := strings.CutSuffix(strings.ToLower(rate), "bit"); ok {
		digits := strings.TrimRight(number, "kmg")
		scale := map[string]float64{"": 1, "k": 1e3, "m": 1e6, "g": 1e9}[number[len(digits):]]
		n, _ := strconv.ParseFloat(digits, 64) // 0 if it is not a number
		bytes = n * scale / 8
	} else if size, err := ui.ParseSize(rate); err == nil && strings.HasSuffix(rate, "B") {
		bytes = float64(size)
	}
	if !(bytes >= 1 && bytes <= maxRate) { // false for NaN, too
		return 0, fmt.Errorf("invalid rate %q: use Kbit/s, or a unit such as 10MB or 10Mbit, up to 100 Gbit/s", text)
	}
	return int64(bytes), nil
}

// tuning is the value of -X, in scp's words. Neither part is needed: the bytes in flight follow
// from the link, and the size of a request from the server.
type tuning struct {
	requests, buffer int64 // 0 if not given
}

// Register adds -X.
func (t *tuning) Register(f *pflag.FlagSet) {
	f.FuncP("tune", "X",
		"set an `option` of sftp: nrequests=n, at most n requests in flight for a file; buffer=n, at most n bytes in a request (default: what link and server allow)",
		t.set)
}

// RegisterSFTP adds -X, and sftp's letters for its options.
func (t *tuning) RegisterSFTP(f *pflag.FlagSet) {
	t.Register(f)
	f.FuncP("request-size", "B", "like -X buffer=`n`",
		func(text string) error { return t.set("buffer=" + text) })
	f.FuncP("requests", "R", "like -X nrequests=`n`",
		func(text string) error { return t.set("nrequests=" + text) })
}

// set takes one -X.
func (t *tuning) set(text string) error {
	word, value, _ := strings.Cut(text, "=")
	number := &t.requests
	switch strings.ToLower(word) {
	case "nrequests":
	case "buffer":
		number = &t.buffer
	default:
		return errors.New("must be nrequests=n or buffer=n")
	}
	scale := int64(1)
	if number == &t.buffer && value != "" { // as scp accepts it: 128k
		if unit := strings.IndexByte("km", value[len(value)-1]|0x20); unit >= 0 {
			scale = 1 << (10 * (unit + 1))
			value = value[:len(value)-1]
		}
	}
	n, err := strconv.ParseInt(value, 10, 32)
	if err != nil || n < 1 {
		return fmt.Errorf("%s must be at least 1", strings.ToLower(word))
	}
	*number = n * scale
	return nil
}

// options returns the client options. One transfer takes at most half of a client's limit of bytes
// in flight.
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
