package research_test

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"sync"
	"testing"

	"github.com/remitrun/remit/internal/agents/capability"
	"github.com/remitrun/remit/internal/agents/capability/capabilitytest"
	"github.com/remitrun/remit/internal/agents/capability/research"
	"github.com/remitrun/remit/internal/authority/permit"
	"github.com/remitrun/remit/internal/authority/permit/permittest"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
)

const policy = "version: 1\n"

type pad struct {
	t     *testing.T
	files *capabilitytest.SessionFiles
	tools map[string]permit.Tool
}

func newPad(t *testing.T) *pad {
	t.Helper()
	p := &pad{t: t, files: &capabilitytest.SessionFiles{}, tools: map[string]permit.Tool{}}
	part, err := research.New(research.Options{}).Part(capability.Session{Files: p.files}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range part.Tools {
		p.tools[o.Name] = o.Tool
	}
	return p
}

func (p *pad) run(name string, args tool.Args) (map[string]any, error) {
	p.t.Helper()
	res, err := permittest.Run(p.t.Context(), p.tools[name], permittest.PermitFor(p.t, p.t.TempDir(), policy), args)
	return res.Output, err
}

func (p *pad) add(finding, source string, more ...string) {
	p.t.Helper()
	args := tool.Args{"finding": finding, "source": source}
	for i := 0; i+1 < len(more); i += 2 {
		args[more[i]] = more[i+1]
		if more[i] == "tags" {
			args["tags"] = []any{more[i+1]}
		}
	}
	if _, err := p.run("add_finding", args); err != nil {
		p.t.Fatal(err)
	}
}

func seeded() capability.Session {
	f := &capabilitytest.SessionFiles{}
	p := permit.Mint(permit.Terms{})
	for n, text := range []string{`{"finding": "A", "source": "https://a.example/", "tags": ["x"]}`, `{"finding": "B", "source": "book"}`} {
		if _, _, err := f.Write(context.Background(), p, fmt.Sprintf("/.research/%04d.json", n+1), []byte(text), 0); err != nil {
			panic(err)
		}
	}
	return capability.Session{Files: f}
}

func TestConformance(t *testing.T) {
	n := json.Number("1")
	capabilitytest.Capability(t, research.New(research.Options{}), capabilitytest.Case{World: permittest.World{Policy: policy}, Session: seeded, Calls: map[string][]tool.Args{
		"add_finding":   {{"finding": "C", "source": "book", "title": "T", "quote": "q", "tags": []any{"x", "y"}}},
		"list_findings": {{}, {"query": "b"}, {"tag": "x"}},
		"cite_findings": {{"findings": []any{n, json.Number("2")}}},
		"write_report":  {{"title": "R"}, {"title": "R", "introduction": "I", "sections": []any{map[string]any{"heading": "H", "findings": []any{n}}}, "save_to": "/r.md"}},
	}})
}

func TestAFindingNeedsASource(t *testing.T) {
	p := newPad(t)
	for _, source := range []string{"", " ", "-", "N/A", "none", "Unknown", "(no source)", "\"\""} {
		_, err := p.run("add_finding", tool.Args{"finding": "It is so.", "source": source})
		if fault.CodeOf(err) != fault.ArgsInvalid || !strings.Contains(err.Error(), "source") {
			t.Errorf("%q: %v", source, err)
		}
	}
	if out, err := p.run("list_findings", tool.Args{}); err != nil || out["total"] != 0 {
		t.Errorf("something was kept: %v, %v", out, err)
	}
}

func TestScratchpad(t *testing.T) {
	p := newPad(t)
	p.add("Water boils at 100 °C.", "https://a.example/water", "title", "Water", "tags", "physics")
	p.add("It freezes at 0 °C.", "https://a.example/water", "tags", "physics", "quote", "at zero\ndegrees")
	p.add("Tea is hot.", "A book, page 3")
	out, err := p.run("add_finding", tool.Args{"finding": "Ice floats.", "source": "https://a.example/water"})
	if err != nil || out["number"] != 4 || out["total"] != 4 || !reflect.DeepEqual(out["same_source"], []int{1, 2}) || out["path"] != "/.research/0004.json" {
		t.Errorf("the fourth: %v, %v", out, err)
	}
	for query, want := range map[string]int{"": 4, "BOILS": 1, "a.example": 3, "zero": 1, "nothing": 0} {
		args := tool.Args{}
		if query != "" {
			args["query"] = query
		}
		if out, err := p.run("list_findings", args); err != nil || out["count"] != want || out["total"] != 4 {
			t.Errorf("%q: %v, %v", query, out, err)
		}
	}
	out, err = p.run("cite_findings", tool.Args{"findings": []any{json.Number("3"), json.Number("2"), json.Number("1")}})
	if want := "[1] A book, page 3  \n[2] Water. <https://a.example/water>"; err != nil || out["markdown"] != want {
		t.Errorf("got %v, %v; want %q", out, err, want)
	}
	_, err = p.run("cite_findings", tool.Args{"findings": []any{json.Number("9")}})
	if fault.CodeOf(err) != fault.NotFound || !strings.Contains(err.Error(), "findings[0]: unknown finding 9") {
		t.Errorf("a finding that is not there: %v", err)
	}
}

func TestReport(t *testing.T) {
	p := newPad(t)
	if _, err := p.run("write_report", tool.Args{"title": "Empty"}); fault.CodeOf(err) != fault.ToolFailed {
		t.Errorf("a report of nothing: %v", err)
	}
	p.add("Water boils at 100 °C.", "https://a.example/water", "title", "Water", "tags", "physics", "quote", "at a\nhundred")
	p.add("Tea is hot.", "A book")
	p.add("It freezes at 0 °C.", "https://a.example/water", "tags", "physics")
	out, err := p.run("write_report", tool.Args{"title": "On\nwater", "introduction": "What is known.", "save_to": "/report.md"})
	want := "# On water\n\nWhat is known.\n\n## physics\n\n- Water boils at 100 °C. [1]\n  > at a hundred\n- It freezes at 0 °C. [1]\n\n## Other findings\n\n- Tea is hot. [2]\n" +
		"\n## Sources\n\n[1] Water. <https://a.example/water>  \n[2] A book\n"
	if err != nil || out["markdown"] != want || out["path"] != "/report.md" || out["sources"] != 2 || len(out["left_out"].([]int)) != 0 {
		t.Errorf("got %v, %v\n%s\nwant\n%s", out, err, out["markdown"], want)
	}
	out, err = p.run("write_report", tool.Args{"title": "T", "sections": []any{map[string]any{"heading": "Tea", "text": "First.", "findings": []any{json.Number("2")}}}})
	if want := "# T\n\n## Tea\n\nFirst.\n\n- Tea is hot. [1]\n\n## Sources\n\n[1] A book\n"; err != nil || out["markdown"] != want || !reflect.DeepEqual(out["left_out"], []int{1, 3}) {
		t.Errorf("got %v, %v", out, err)
	}
	for _, at := range []string{"/.research", "/.research/0001.json", "x/../.research/a"} {
		if _, err := p.run("write_report", tool.Args{"title": "T", "save_to": at}); fault.CodeOf(err) != fault.ArgsInvalid {
			t.Errorf("saved to %s: %v", at, err)
		}
	}
}

func TestABrokenFileHidesNoOther(t *testing.T) {
	p := newPad(t)
	p.add("A", "book")
	pm := permittest.PermitFor(t, t.TempDir(), policy)
	for name, text := range map[string]string{"/.research/0007.json": "{", "/.research/notes.txt": "x", "/.research/0003.json": `{"finding": "no source"}`} {
		if _, _, err := p.files.Write(t.Context(), pm, name, []byte(text), 0); err != nil {
			t.Fatal(err)
		}
	}
	out, err := p.run("list_findings", tool.Args{})
	if err != nil || out["count"] != 1 || !reflect.DeepEqual(out["broken"], []string{"/.research/0003.json", "/.research/0007.json"}) {
		t.Errorf("got %v, %v", out, err)
	}
	if out, err := p.run("add_finding", tool.Args{"finding": "B", "source": "book"}); err != nil || out["number"] != 8 {
		t.Errorf("got %v, %v", out, err)
	}
}

func TestFindingsSideBySide(t *testing.T) {
	p := newPad(t)
	var wg sync.WaitGroup
	for i := range 20 {
		pm := permittest.PermitFor(t, t.TempDir(), policy)
		wg.Go(func() {
			if _, err := permittest.Run(t.Context(), p.tools["add_finding"], pm, tool.Args{"finding": fmt.Sprint(i), "source": "book"}); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if out, err := p.run("list_findings", tool.Args{}); err != nil || out["count"] != 20 {
		t.Errorf("got %v, %v", out["count"], err)
	}
}
