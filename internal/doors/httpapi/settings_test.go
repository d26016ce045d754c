package httpapi_test

import (
	"reflect"
	"testing"
	"time"

	"github.com/remitrun/remit/internal/doors/httpapi"
	"github.com/remitrun/remit/internal/service/settings"
)

// TestSettingsAreLimits: each setting reaches a limit of its own, and what the command line says
// comes first.
func TestSettingsAreLimits(t *testing.T) {
	v := reflect.ValueOf(&settings.Limits{}).Elem()
	for i := range v.NumField() {
		one := settings.Limits{}
		f := reflect.ValueOf(&one).Elem().Field(i)
		f.SetInt(77)
		name := v.Type().Field(i).Name
		got := httpapi.Limits{}.With(one)
		if reflect.DeepEqual(got, httpapi.Limits{}) != (name == "Clients") { // of the MCP door
			t.Errorf("%s: %+v", name, got)
		}
		if first := got.With(settings.Limits{Connections: 1, PerAddress: 1, Header: 1, Body: 1, File: 1, Requests: 1, Uploads: 1, Runs: 1, Streams: 1, Refused: 1, Turn: time.Second}); name == "Body" && first.Body != 77 || name == "Turn" && first.Turn != 77 {
			t.Errorf("%s is replaced: %+v", name, first)
		}
	}
}
