package random_test

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"testing"

	"github.com/remitrun/remit/internal/authority/permit/permittest"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/tools/builtin/random"
)

const nothing = "version: 1\nname: test\n"

func TestConformance(t *testing.T) {
	permittest.Tool(t, random.Tools()[0], permittest.World{Policy: nothing},
		tool.Args{"count": json.Number("16")}, tool.Args{"count": json.Number("65536"), "encoding": "base64"})
}

func TestBytes(t *testing.T) {
	decode := map[string]func(string) ([]byte, error){"hex": hex.DecodeString, "base64": base64.StdEncoding.DecodeString}
	tests := map[string]struct {
		count string
		want  int // 0: refused
	}{
		"one": {"1", 1}, "whole in another spelling": {"1e3", 1000}, "most": {"65536", 65536},
		"none": {"0", 0}, "negative": {"-1", 0}, "too many": {"65537", 0}, "a fraction": {"1.5", 0}, "huge": {"1e999", 0},
	}
	for name, tc := range tests {
		for enc, dec := range decode {
			t.Run(name+" "+enc, func(t *testing.T) {
				p := permittest.World{Policy: nothing}.Permit(t)
				res, err := permittest.Run(t.Context(), random.Tools()[0], p, tool.Args{"count": json.Number(tc.count), "encoding": enc})
				if tc.want == 0 {
					if !errors.Is(err, fault.ArgsInvalid) {
						t.Fatalf("got %v, want a fault.ArgsInvalid error", err)
					}
					return
				}
				if err != nil {
					t.Fatal(err)
				}
				b, err := dec(res.Output["bytes"].(string))
				if err != nil || len(b) != tc.want {
					t.Errorf("got %d bytes (%v), want %d", len(b), err, tc.want)
				}
			})
		}
	}
}

func TestTwoCallsDiffer(t *testing.T) {
	p := permittest.World{Policy: nothing}.Permit(t)
	seen := map[any]bool{}
	for range 100 {
		res, err := permittest.Run(t.Context(), random.Tools()[0], p, tool.Args{"count": json.Number("16")})
		if err != nil || seen[res.Output["bytes"]] {
			t.Fatalf("%v, or the same bytes twice", err)
		}
		seen[res.Output["bytes"]] = true
	}
}
