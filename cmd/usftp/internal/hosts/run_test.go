package hosts

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/usftp/usftp/cmd/usftp/internal/opt"
	"github.com/usftp/usftp/internal/ui"
)

// TestEachAfterTheEnd: once the context has ended, for whatever reason, work begins on no other
// host, and Each does not wait for one.
func TestEachAfterTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		run := &Run{Hosts: []Host{{Label: "a"}, {Label: "b"}, {Label: "c"}}, app: ui.NewApp("usftp"),
			flags: &Flags{parallel: 1}, report: &opt.Report{Quiet: true}}
		var worked []string
		err := run.Each(ctx, func(_ context.Context, _ *ui.App, h Host) (Result, error) {
			worked = append(worked, h.Label)
			cancel()
			return Result{}, nil
		})
		exit, _ := errors.AsType[*ui.ExitError](err)
		if len(worked) != 1 || exit == nil || exit.Code != ui.ExitFailed {
			t.Errorf("worked on %q: %v", worked, err)
		}
	})
}
