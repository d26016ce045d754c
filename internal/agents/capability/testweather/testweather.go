// Package testweather has the capability test_weather, for trying out tool calls: an
// invented weather that is always the same for a city. Start at [New].
package testweather

import (
	"context"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"strings"

	"github.com/remitrun/remit/internal/agents/capability"
	"github.com/remitrun/remit/internal/authority/permit"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/tools/typed"
)

// Capability is the capability test_weather.
type Capability struct{}

// New makes the capability.
func New() Capability { return Capability{} }

// Info describes the capability.
func (Capability) Info() capability.Info {
	return capability.Info{ID: "test_weather", Name: "Test Weather", Description: "Mock weather tools for testing tool calls: get_weather and get_forecast.",
		Status: capability.Available, Icon: "cloud-sun", Category: "Testing", Version: "1"}
}

const prompt = "You have access to weather tools. Use get_weather for current conditions and get_forecast for multi-day forecasts."

const (
	place = `"city":{"type":"string","minLength":1,"maxLength":100,"description":"The city, as Berlin."},
		"units":{"enum":["celsius","fahrenheit"],"description":"Of temperatures; default celsius."}`
	conditions = `"conditions":{"type":"string"},"temperature_high":{"type":"number"},"temperature_low":{"type":"number"},"humidity_percent":{"type":"integer"},"wind_kmh":{"type":"integer"}`
)

var (
	weatherInput  = typed.Object(place, "city")
	weatherOutput = typed.Object(`"city":{"type":"string"},"units":{"type":"string"},"mock":{"type":"boolean"},"temperature":{"type":"number"},`+conditions,
		"city", "units", "mock", "temperature", "conditions", "humidity_percent", "wind_kmh")
	forecastInput  = typed.Object(place+`,"days":{"type":"integer","minimum":1,"maximum":14,"description":"How many days, from today on; default 3."}`, "city")
	forecastOutput = typed.Object(`"city":{"type":"string"},"units":{"type":"string"},"mock":{"type":"boolean"},"days":{"type":"integer"},
		"forecast":{"type":"array","items":{"type":"object","additionalProperties":false,"required":["day","conditions","temperature_high","temperature_low"],
		"properties":{"day":{"type":"integer"},`+conditions+`}}}`, "city", "units", "mock", "days", "forecast")
)

type arguments struct {
	City  string `json:"city"`
	Units string `json:"units"`
	Days  int    `json:"days"`
}

// Part offers get_weather and get_forecast.
func (Capability) Part(capability.Session, json.RawMessage) (capability.Part, error) {
	return capability.Part{Prompt: prompt, Tools: []capability.Offer{
		capability.Own("get_weather", typed.Func(tool.Spec{ID: "test_weather.get_weather", Title: "Get the weather", Version: "1", Risk: tool.Low,
			Description: "Gets the current weather of a city. The weather is made up, and always the same for a city.", Input: weatherInput, Output: weatherOutput}, weather)),
		capability.Own("get_forecast", typed.Func(tool.Spec{ID: "test_weather.get_forecast", Title: "Get the forecast", Version: "1", Risk: tool.Low,
			Description: "Gets the weather of a city for several days from today (day 1) on. It is made up, and always the same for a city.", Input: forecastInput, Output: forecastOutput}, forecast)),
	}}, nil
}

var skies = []string{"sunny", "partly cloudy", "cloudy", "light rain", "rain", "thunderstorms", "fog", "snow"}

// day invents the weather of a day.
func day(city string, n int, units string) map[string]any {
	h := fnv.New64a()
	_, _ = fmt.Fprintf(h, "%s/%d", strings.ToLower(strings.TrimSpace(city)), n) // a hash accepts everything
	v := h.Sum64()
	low := int(v>>8%25) - 5
	high := low + 3 + int(v>>16%12)
	return map[string]any{
		"conditions": skies[v%uint64(len(skies))], "temperature_low": degrees(low, units), "temperature_high": degrees(high, units),
		"humidity_percent": 30 + int(v>>24%66), "wind_kmh": int(v >> 32 % 50),
	}
}

func degrees(celsius int, units string) float64 {
	if units == "fahrenheit" {
		return float64(celsius*18+320) / 10
	}
	return float64(celsius)
}

// check adds the defaults of arguments.
func (a *arguments) check() error {
	if strings.TrimSpace(a.City) == "" {
		return fault.New(fault.ArgsInvalid, "must name a city").In("city")
	}
	if a.Units == "" {
		a.Units = "celsius"
	}
	if a.Days == 0 {
		a.Days = 3
	}
	return nil
}

func weather(_ context.Context, _ permit.Permit, a arguments) (map[string]any, error) {
	if err := a.check(); err != nil {
		return nil, err
	}
	out := day(a.City, 1, a.Units)
	low, _ := out["temperature_low"].(float64)
	high, _ := out["temperature_high"].(float64)
	out["temperature"] = (low + high) / 2
	out["city"], out["units"], out["mock"] = a.City, a.Units, true
	return out, nil
}

func forecast(_ context.Context, _ permit.Permit, a arguments) (map[string]any, error) {
	if err := a.check(); err != nil {
		return nil, err
	}
	days := make([]any, a.Days)
	for i := range days {
		d := day(a.City, i+1, a.Units)
		d["day"] = i + 1
		days[i] = d
	}
	return map[string]any{"city": a.City, "units": a.Units, "mock": true, "days": a.Days, "forecast": days}, nil
}
