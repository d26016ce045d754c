package testweather_test

import (
	"encoding/json"
	"reflect"
	"testing"

	"github.com/remitrun/remit/internal/agents/capability"
	"github.com/remitrun/remit/internal/agents/capability/capabilitytest"
	"github.com/remitrun/remit/internal/agents/capability/testweather"
	"github.com/remitrun/remit/internal/authority/permit/permittest"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
)

const policy = "version: 1\n"

func TestConformance(t *testing.T) {
	capabilitytest.Capability(t, testweather.New(), capabilitytest.Case{World: permittest.World{Policy: policy}, Calls: map[string][]tool.Args{
		"get_weather":  {{"city": "Berlin"}, {"city": "Oslo", "units": "fahrenheit"}},
		"get_forecast": {{"city": "Berlin"}, {"city": "Berlin", "days": json.Number("14")}},
	}})
}

func run(t *testing.T, name string, args tool.Args) (map[string]any, error) {
	t.Helper()
	part, err := testweather.New().Part(capability.Session{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range part.Tools {
		if o.Name == name {
			res, err := permittest.Run(t.Context(), o.Tool, permittest.PermitFor(t, t.TempDir(), policy), args)
			return res.Output, err
		}
	}
	t.Fatalf("no tool %q", name)
	return nil, nil
}

func TestWeatherIsTheSameEachTime(t *testing.T) {
	want := map[string]any{"city": "Berlin", "units": "celsius", "mock": true, "temperature": 4.5, "temperature_low": 2.0, "temperature_high": 7.0,
		"conditions": "partly cloudy", "humidity_percent": 76, "wind_kmh": 21}
	for range 2 {
		got, err := run(t, "get_weather", tool.Args{"city": "Berlin"})
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Fatalf("got %v, %v; want %v", got, err, want)
		}
	}
	other, err := run(t, "get_weather", tool.Args{"city": "Oslo"})
	if err != nil || reflect.DeepEqual(other, want) {
		t.Fatalf("another city has the same weather: %v, %v", other, err)
	}
}

func TestForecast(t *testing.T) {
	got, err := run(t, "get_forecast", tool.Args{"city": "Berlin", "days": json.Number("5")})
	if err != nil {
		t.Fatal(err)
	}
	days, _ := got["forecast"].([]any)
	if len(days) != 5 || got["days"] != 5 {
		t.Fatalf("got %v", got)
	}
	first, _ := days[0].(map[string]any)
	if now, _ := run(t, "get_weather", tool.Args{"city": "Berlin"}); first["conditions"] != now["conditions"] || first["day"] != 1 {
		t.Errorf("the first day is %v, and not as now %v", first, now)
	}
	if _, err := run(t, "get_forecast", tool.Args{"city": " "}); fault.CodeOf(err) != fault.ArgsInvalid {
		t.Errorf("no city: %v", err)
	}
}
