package opt

import (
	"github.com/spf13/pflag"

	"github.com/usftp/usftp/transfer"
)

// Delta holds the flags that select whether files that replace older ones are sent as their
// differences. The default is on unless RegisterOptional is used.
type Delta struct {
	optional, on, whole, noHelper bool
}

// Register adds the flags of a command that sends differences by default.
func (d *Delta) Register(f *pflag.FlagSet) {
	f.BoolVarP(&d.whole, "whole-file", "W", false,
		"send large files whole, even if only parts of the version in DST have changed")
	d.register(f)
}

// RegisterOptional adds the flags of a command that sends differences only on request.
func (d *Delta) RegisterOptional(f *pflag.FlagSet) {
	d.optional = true
	f.BoolVar(&d.on, "delta", false,
		"if DST is already a large file, send only what has changed, where the host supports it and it is faster")
	d.register(f)
}

func (d *Delta) register(f *pflag.FlagSet) {
	f.BoolVar(&d.noHelper, "no-helper", false,
		"do not run usftp on the host to find what has changed or to copy many small files; all is then left to the host's own server")
}

// Mode returns how files are copied.
func (d *Delta) Mode() transfer.Delta {
	if d.whole || d.optional && !d.on {
		return transfer.DeltaNever
	}
	return transfer.DeltaAuto
}

// Helper reports whether usftp may be run on hosts, which many small files need besides deltas.
func (d *Delta) Helper() bool { return !d.noHelper }
