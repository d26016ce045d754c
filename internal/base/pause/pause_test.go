package pause_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/remitrun/remit/internal/base/pause"
)

func TestFor(t *testing.T) {
	if err := pause.For(t.Context(), time.Microsecond); err != nil {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := pause.For(ctx, time.Hour); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}
