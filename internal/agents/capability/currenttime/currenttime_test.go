package currenttime_test

import (
	"errors"
	"testing"
	"time"

	"github.com/remitrun/remit/internal/agents/capability"
	"github.com/remitrun/remit/internal/agents/capability/capabilitytest"
	"github.com/remitrun/remit/internal/agents/capability/currenttime"
	"github.com/remitrun/remit/internal/authority/permit/permittest"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
)

const policy = "version: 1\n"

func now() time.Time { return time.Date(2026, 3, 1, 8, 30, 15, 123456789, time.UTC) }

func TestConformance(t *testing.T) {
	capabilitytest.Capability(t, currenttime.New(now), capabilitytest.Case{World: permittest.World{Policy: policy},
		Calls: map[string][]tool.Args{"get_current_time": {{}, {"timezone": "America/New_York", "format": "human"}, {"format": "unix"}}}})
}

func TestGetCurrentTime(t *testing.T) {
	tests := map[string]struct {
		args tool.Args
		want string
	}{
		"UTC and ISO 8601 unless asked otherwise": {tool.Args{}, "2026-03-01T08:30:15Z"},
		"another zone":             {tool.Args{"timezone": "Europe/Berlin"}, "2026-03-01T09:30:15+01:00"},
		"seconds since 1970":       {tool.Args{"format": "unix", "timezone": "Asia/Tokyo"}, "1772353815"},
		"for people":               {tool.Args{"format": "human", "timezone": "Europe/Berlin"}, "Sunday, 1 March 2026, 09:30:15 CET"},
		"a zone of half an hour":   {tool.Args{"timezone": "Asia/Kolkata"}, "2026-03-01T14:00:15+05:30"},
		"iso8601 can be asked for": {tool.Args{"timezone": "UTC", "format": "iso8601"}, "2026-03-01T08:30:15Z"},
	}
	part, err := currenttime.New(now).Part(capability.Session{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			res, err := permittest.Run(t.Context(), part.Tools[0].Tool, permittest.PermitFor(t, t.TempDir(), policy), tt.args)
			if err != nil || res.Output["current_time"] != tt.want || res.Output["unix"] != now().Unix() {
				t.Fatalf("got %v, %v; want %s", res.Output, err, tt.want)
			}
		})
	}
}

func TestUnknownZones(t *testing.T) {
	part, err := currenttime.New(now).Part(capability.Session{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for zone, hint := range map[string]string{
		"Europe/Berln": `did you mean "Europe/Berlin"?`, "Local": "use an IANA name, as Europe/Berlin",
		"../../etc/passwd": "use an IANA name, as Europe/Berlin", "/etc/localtime": "use an IANA name, as Europe/Berlin",
	} {
		_, err := permittest.Run(t.Context(), part.Tools[0].Tool, permittest.PermitFor(t, t.TempDir(), policy), tool.Args{"timezone": zone})
		var f *fault.Error
		if !errors.As(err, &f) || f.Code != fault.ArgsInvalid || f.Field != "timezone" || f.Hint != hint {
			t.Errorf("%q: got %v, want the hint %q", zone, err, hint)
		}
	}
}
