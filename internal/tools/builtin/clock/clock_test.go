package clock_test

import (
	"testing"
	"time"

	"github.com/remitrun/remit/internal/authority/permit/permittest"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/tools/builtin/clock"
)

const nothing = "version: 1\nname: test\n"

func TestNow(t *testing.T) {
	at := time.Date(2031, 2, 3, 4, 5, 6, 7, time.FixedZone("XYZ", 5400))
	now := clock.Tools(func() time.Time { return at })[0]
	permittest.Tool(t, now, permittest.World{Policy: nothing}, tool.Args{})

	res, err := permittest.Run(t.Context(), now, permittest.World{Policy: nothing}.Permit(t), nil)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]any{"utc": "2031-02-03T02:35:06.000000007Z", "unix_ms": at.UnixMilli(), "timezone": "XYZ +01:30"}
	for k, v := range want {
		if res.Output[k] != v {
			t.Errorf("%s is %v, want %v", k, res.Output[k], v)
		}
	}
}
