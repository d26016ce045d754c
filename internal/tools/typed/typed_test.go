package typed_test

import (
	"context"
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/remitrun/remit/internal/authority/permit"
	"github.com/remitrun/remit/internal/authority/permit/permittest"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/tools/typed"
)

// yesNo reads its own JSON.
type yesNo bool

func (y *yesNo) UnmarshalJSON(b []byte) error {
	switch string(b) {
	case `"yes"`, `"no"`:
		*y = string(b) == `"yes"`
		return nil
	}
	return errors.New("expected yes or no")
}

type inner struct {
	Name string `json:"name"`
}

type embedded struct {
	URL string `json:"url"`
}

type arguments struct {
	embedded

	Text   string            `json:"text"`
	Flag   *bool             `json:"flag"`
	Count  int               `json:"count"`
	Large  *int64            `json:"large"`
	Ratio  float64           `json:"ratio"`
	Number json.Number       `json:"number"`
	List   []inner           `json:"list"`
	Map    map[string]string `json:"map"`
	Value  *any              `json:"value"`
	Answer yesNo             `json:"answer"`
	hidden string            //nolint:unused // arguments cannot set it
}

// read returns the arguments as a tool gets them.
func read(t testing.TB, args tool.Args) (arguments, error) {
	t.Helper()
	var got arguments
	tl := typed.New(tool.Spec{ID: "test.read"}, func(_ tool.Env, a arguments) (permit.Prepared, error) {
		got = a
		return permit.Prepared{}, nil
	})
	_, err := tl.Prepare(tool.Env{}, args)
	return got, err
}

func parse(t testing.TB, text string) tool.Args {
	t.Helper()
	var args tool.Args
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	if err := d.Decode(&args); err != nil {
		t.Fatal(err)
	}
	return args
}

func TestArgumentsBecomeAStruct(t *testing.T) {
	yes, large, null := true, int64(1)<<40, any(nil)
	for text, want := range map[string]arguments{
		`{}`:                               {},
		`{"text":"a","flag":true}`:         {Text: "a", Flag: &yes},
		`{"url":"http://h"}`:               {embedded: embedded{"http://h"}},
		`{"count":1e3}`:                    {Count: 1000},
		`{"count":2.0}`:                    {Count: 2},
		`{"large":1099511627776}`:          {Large: &large},
		`{"ratio":0.5}`:                    {Ratio: 0.5},
		`{"number":1.0}`:                   {Number: "1"}, // canonical
		`{"list":[{"name":"a"},{}]}`:       {List: []inner{{"a"}, {}}},
		`{"list":[]}`:                      {List: []inner{}},
		`{"map":{"a":"b"},"answer":"yes"}`: {Map: map[string]string{"a": "b"}, Answer: true},
		`{"value":null}`:                   {Value: &null},
	} {
		if got, err := read(t, parse(t, text)); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got %+v, %v, want %+v", text, got, err, want)
		}
	}
}

func TestArgumentsThatDoNotFit(t *testing.T) {
	for text, field := range map[string]string{
		`{"text":1}`:                         "text",
		`{"text":null}`:                      "text",
		`{"flag":"true"}`:                    "flag",
		`{"count":1.5}`:                      "count",
		`{"count":1e300}`:                    "count",
		`{"large":9223372036854775808}`:      "large",
		`{"ratio":"1"}`:                      "ratio",
		`{"ratio":1e999}`:                    "ratio",
		`{"list":[{"name":"a"},{"name":2}]}`: "list[1].name",
		`{"list":{}}`:                        "list",
		`{"map":{"a":1}}`:                    "map.a",
		`{"map":[]}`:                         "map",
		`{"answer":"maybe"}`:                 "answer",
		`{"TEXT":"a"}`:                       "",
		`{"hidden":"a"}`:                     "",
		`{"embedded":{"url":"a"}}`:           "",
		`{"list":[{"other":1}]}`:             "",
	} {
		_, err := read(t, parse(t, text))
		var coded *fault.Error
		if !errors.Is(err, fault.ArgsInvalid) || !errors.As(err, &coded) || coded.Field != field {
			t.Errorf("%s: got %v, want fault.ArgsInvalid in %q", text, err, field)
		}
	}
}

// A recorded call is decided again by a replay, which compares the errors.
func TestOfSeveralFaultsTheSameOneIsTold(t *testing.T) {
	for text, want := range map[string]string{
		`{"count":"a","flag":1,"ratio":"b","text":2}`: "count",
		`{"map":{"d":1,"a":2,"c":3,"b":4}}`:           "map.a",
	} {
		for range 50 {
			var coded *fault.Error
			if _, err := read(t, parse(t, text)); !errors.As(err, &coded) || coded.Field != want {
				t.Fatalf("%s: got %v, want one in %q", text, err, want)
			}
		}
	}
}

// Whatever encoding/json reads is read alike, so that a struct's tags mean the same.
func TestReadsLikeEncodingJSON(t *testing.T) {
	type nested struct {
		S string         `json:"s"`
		N int64          `json:"n"`
		F float64        `json:"f"`
		B bool           `json:"b"`
		L []string       `json:"l"`
		M map[string]int `json:"m"`
		A any            `json:"a"`
	}
	rapid.Check(t, func(rt *rapid.T) {
		want := nested{
			S: rapid.String().Draw(rt, "s"), N: rapid.Int64().Draw(rt, "n"), F: rapid.Float64Range(-1e9, 1e9).Draw(rt, "f"), B: rapid.Bool().Draw(rt, "b"),
			L: rapid.SliceOf(rapid.String()).Draw(rt, "l"), M: rapid.MapOf(rapid.String(), rapid.Int()).Draw(rt, "m"), A: rapid.String().Draw(rt, "a"),
		}
		raw, err := json.Marshal(want)
		if err != nil {
			rt.Fatal(err)
		}
		if err := json.Unmarshal(raw, &want); err != nil {
			rt.Fatal(err)
		}
		var got nested
		tl := typed.New(tool.Spec{}, func(_ tool.Env, a nested) (permit.Prepared, error) { got = a; return permit.Prepared{}, nil })
		if _, err := tl.Prepare(tool.Env{}, parse(t, string(raw))); err != nil || !reflect.DeepEqual(got, want) {
			rt.Fatalf("%s: got %+v, %v", raw, got, err)
		}
	})
}

func TestWhatWasPreparedRuns(t *testing.T) {
	ran := ""
	tl := typed.Func(tool.Spec{ID: "test.keep"}, func(_ context.Context, _ permit.Permit, a inner) (map[string]any, error) {
		ran = a.Name
		return map[string]any{}, nil
	})
	args := tool.Args{"name": "decided"}
	call, err := tl.Prepare(tool.Env{}, args)
	if err != nil {
		t.Fatal(err)
	}
	args["name"] = "another"
	if _, err := call.Run(t.Context(), permittest.PermitFor(t, t.TempDir(), "version: 1\n")); err != nil || ran != "decided" {
		t.Errorf("ran with %q, %v", ran, err)
	}
}

func TestACallThatIsOverDoesNotRun(t *testing.T) {
	tl := typed.Func(tool.Spec{ID: "test.never"}, func(context.Context, permit.Permit, struct{}) (map[string]any, error) {
		t.Error("it ran")
		return nil, nil
	})
	p := permittest.PermitFor(t, t.TempDir(), "version: 1\n")
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := permittest.Run(ended, tl, p, nil); !errors.Is(err, fault.ToolCancelled) {
		t.Errorf("after the context ended: got %v", err)
	}
	p.End()
	if _, err := permittest.Run(t.Context(), tl, p, nil); !errors.Is(err, fault.HandleRefused) {
		t.Errorf("after the permit ended: got %v", err)
	}
}

func TestRawArguments(t *testing.T) {
	var got json.RawMessage
	tl := typed.New(tool.Spec{}, func(_ tool.Env, a json.RawMessage) (permit.Prepared, error) { got = a; return permit.Prepared{}, nil })
	for want, args := range map[string]tool.Args{`{}`: nil, `{"a":[1,null]}`: {"a": []any{json.Number("1.0"), nil}}} {
		if _, err := tl.Prepare(tool.Env{}, args); err != nil || string(got) != want {
			t.Errorf("got %s, %v, want %s", got, err, want)
		}
	}
}
