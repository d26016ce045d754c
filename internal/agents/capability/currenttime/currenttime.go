// Package currenttime has the capability current_time. Start at [New].
package currenttime

import (
	"context"
	"encoding/json"
	"strconv"
	"time"
	_ "time/tzdata" // so that every machine knows the same zones

	"github.com/remitrun/remit/internal/agents/capability"
	"github.com/remitrun/remit/internal/authority/permit"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/near"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/tools/typed"
)

// Capability is the capability current_time.
type Capability struct{ now func() time.Time }

// New makes the capability; now gives the time.
func New(now func() time.Time) Capability { return Capability{now} }

// Info describes the capability.
func (Capability) Info() capability.Info {
	return capability.Info{ID: "current_time", Name: "Current Time",
		Description: "Tool to get current date and time in various formats and timezones.",
		Status:      capability.Available, Icon: "clock", Category: "Utilities", Version: "1"}
}

var (
	input = typed.Object(`"timezone":{"type":"string","minLength":1,"maxLength":64,"description":"An IANA time zone, as UTC (the default) or America/New_York."},
		"format":{"enum":["iso8601","unix","human"],"description":"iso8601 (the default) as 2026-03-01T09:30:00+01:00, unix as seconds since 1970, human as Sunday, 1 March 2026, 09:30:00 CET."}`)
	output = typed.Object(`"current_time":{"type":"string"},"timezone":{"type":"string"},"format":{"type":"string"},
		"unix":{"type":"integer"},"weekday":{"type":"string"},"utc_offset":{"type":"string"}`,
		"current_time", "timezone", "format", "unix", "weekday", "utc_offset")
)

type arguments struct {
	Timezone string `json:"timezone"`
	Format   string `json:"format"`
}

// Part offers get_current_time.
func (c Capability) Part(capability.Session, json.RawMessage) (capability.Part, error) {
	return capability.Part{Tools: []capability.Offer{capability.Own("get_current_time", typed.Func(tool.Spec{
		ID: "current_time.get_current_time", Title: "Get the current time", Version: "1", Risk: tool.Low,
		Description: "Gets the current date and time in a time zone (default UTC) and a format: iso8601 (default), unix or human.",
		Input:       input, Output: output,
	}, c.tell))}}, nil
}

func (c Capability) tell(_ context.Context, _ permit.Permit, a arguments) (map[string]any, error) {
	if a.Timezone == "" {
		a.Timezone = "UTC"
	}
	if a.Format == "" {
		a.Format = "iso8601"
	}
	zone, err := time.LoadLocation(a.Timezone)
	if err != nil || a.Timezone == "Local" {
		e := fault.New(fault.ArgsInvalid, "unknown time zone %q", a.Timezone).In("timezone")
		if meant := near.Word(a.Timezone, common); meant != "" {
			return nil, e.WithHint("did you mean %q?", meant)
		}
		return nil, e.WithHint("use an IANA name, as Europe/Berlin")
	}
	t := c.now().In(zone)
	return map[string]any{
		"current_time": formatTime(t, a.Format), "timezone": a.Timezone, "format": a.Format,
		"unix": t.Unix(), "weekday": t.Weekday().String(), "utc_offset": t.Format("-07:00"),
	}, nil
}

func formatTime(t time.Time, format string) string {
	switch format {
	case "unix":
		return strconv.FormatInt(t.Unix(), 10)
	case "human":
		return t.Format("Monday, 2 January 2006, 15:04:05 MST")
	}
	return t.Format(time.RFC3339)
}

// common has the zones that an unknown name is compared with.
var common = []string{"UTC", "Europe/London", "Europe/Berlin", "Europe/Paris", "Europe/Madrid", "Europe/Rome", "Europe/Moscow", "Europe/Kyiv",
	"America/New_York", "America/Chicago", "America/Denver", "America/Los_Angeles", "America/Sao_Paulo", "America/Toronto", "America/Mexico_City",
	"Asia/Tokyo", "Asia/Shanghai", "Asia/Kolkata", "Asia/Singapore", "Asia/Dubai", "Asia/Seoul", "Asia/Hong_Kong", "Australia/Sydney",
	"Africa/Cairo", "Africa/Johannesburg", "Africa/Lagos", "Pacific/Auckland"}
