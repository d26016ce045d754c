package report

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	_ "embed" // the page and its style
	"encoding/base64"
	"encoding/json"
	"fmt"
	"html/template"
	"io"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/remitrun/remit/internal/base/clip"
	"github.com/remitrun/remit/internal/base/redact"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/record/ledger"
)

//go:embed page.html
var pageSource string

//go:embed style.css
var style string

// page is parsed when it is first drawn; html/template escapes each value for the
// place it is in.
var page = sync.OnceValue(func() *template.Template {
	return template.Must(template.New("page").Funcs(template.FuncMap{
		"show": redact.Show, "verb": func(s string) string { return redact.Show(verb(s)) }, "lines": redact.ShowLines, "span": span, "place": place, "plural": plural, "size": size, "times": times,
		"when":  func(t time.Time) string { return t.Format("2 January 2006, 15:04:05 MST") },
		"short": func(s string) string { return clip.Text(redact.Show(s), 400) },
	}).Parse(pageSource))
})

// HTML writes the report as one page that loads nothing: no script, no font, no
// image. A strict content security policy makes the browser hold to it.
func HTML(w io.Writer, d Data) error {
	pictures := album{left: maxReportPNGs}
	shown := endSteps[stepView]{keep: pictures.newStepView}
	rep, err := build(d, &shown)
	if err = cmp.Or(err, pictures.err); err != nil {
		return err
	}
	var b bytes.Buffer // a page cut short by an error would look like a whole one
	if err := page().Execute(&b, newView(rep, shown.all())); err != nil {
		return fmt.Errorf("drawing the report: %w", err)
	}
	_, err = w.Write(b.Bytes())
	return err
}

// view is the data of the page.
type view struct {
	Report
	CSP    string
	CSS    template.CSS
	Title  string
	Icon   string
	Class  string
	Steps  []stepView
	Denied []stepView
	Groups []group
	Inputs []field
}

func newView(rep Report, shown []placed[stepView]) view {
	sum := sha256.Sum256([]byte(style))
	v := view{
		Report: rep, CSS: template.CSS(style), Title: rep.Run.Name, Icon: pageSign(rep.Run.Status), Class: classOf(rep.Run.Status),
		CSP:    "default-src 'none'; style-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'; base-uri 'none'; form-action 'none'",
		Inputs: fields(rep.Plan.Inputs),
	}
	if slices.ContainsFunc(shown, func(s placed[stepView]) bool { return len(s.step.Shown) > 0 }) {
		v.CSP += "; img-src data:"
	}
	if v.Title == "" {
		v.Title = "Run " + rep.Run.ID[:8]
	}
	for _, s := range shown {
		x := s.step
		x.draw(rep.Summary.TotalDurationMS)
		x.Left = s.left
		v.Steps = append(v.Steps, x)
		if s.refused {
			v.Denied = append(v.Denied, x)
		}
	}
	for _, g := range groups(rep.Summary.Resources) {
		if len(g.List) > 0 {
			g.List = g.List[:min(g.All, shownEnds)]
			v.Groups = append(v.Groups, g)
		}
	}
	return v
}

// classOf is a status as a class of the style sheet; an unknown one has none.
func classOf(status string) string {
	if _, ok := icons[status]; ok {
		return status
	}
	return ""
}

// stepView is a step with computed values for the page.
type stepView struct {
	Step
	Icon     string
	Subject  string
	From, To string // of the bar, out of 1000
	Phases   []phase
	Args     []field
	Output   []field
	Refusals []ledger.Refusal
	Shown    []shownPicture
	Unshown  int // pictures for which the report has no room
}

// shownPicture is a picture as a data: URL.
type shownPicture struct {
	Name string
	URL  template.URL
}

// album takes the pictures of a report, as far as there is room.
type album struct {
	left int // bytes
	err  error
}

// phase is the time between two states.
type phase struct {
	Name    string
	Class   string
	X, W    string // out of 1000
	Lasting string
}

// draw computes the step's bar, for the whole run's duration.
func (v *stepView) draw(total float64) {
	from, to := place01(v.Step, total)
	from = min(from, 0.995)
	v.From, v.To = thousand(from), thousand(max(to-from, 0.005))
}

// newStepView keeps only the shown part of the arguments and the output.
func (a *album) newStepView(s Step) stepView {
	v := stepView{
		Step: s, Icon: pageSign(s.Status), Subject: subject(s),
		Phases: phases(s.Timeline), Args: fields(s.Args), Output: fields(s.Output),
	}
	if s.Status == tool.StatusDenied.String() || len(s.Decision.Refusals) > 0 {
		v.Refusals = refusalsOf(s)
	}
	a.add(&v)
	if len(v.Shown) > 0 {
		v.Output = slices.DeleteFunc(v.Output, func(f field) bool { return f.Key == "content_base64" || f.Key == "images" })
	}
	v.Step.Args, v.Step.Output, v.pictures = Value{}, Value{}, nil
	return v
}

// add adds the pictures of a step. Browsers show nothing but an image of such a URL.
func (a *album) add(v *stepView) {
	if v.pictures == nil || a.err != nil {
		return
	}
	list, err := v.pictures()
	if a.err = err; err != nil {
		return
	}
	for _, p := range list {
		if a.left -= len(p.PNG); a.left < 0 {
			v.Unshown++
			continue
		}
		v.Shown = append(v.Shown, shownPicture{p.Name, template.URL("data:image/png;base64," + base64.StdEncoding.EncodeToString(p.PNG))})
	}
}

func thousand(part float64) string { return strconv.FormatFloat(part*1000, 'f', 1, 64) }

// phases returns the time that a call spent between each two of its states.
func phases(t Timeline) []phase {
	marks := []struct {
		at   *float64
		name string
	}{{t.Created, "received"}, {t.Validating, "decide"}, {t.Executing, "execute"}, {t.Processing, "process"}, {t.Logging, "record"}}
	if t.Ended == nil || *t.Ended <= 0 {
		return nil
	}
	end := *t.Ended
	var out []phase
	for i, m := range marks {
		if m.at == nil {
			continue
		}
		next := end
		for _, n := range marks[i+1:] {
			if n.at != nil {
				next = *n.at
				break
			}
		}
		if next > *m.at {
			out = append(out, phase{m.name, "ph-" + m.name, thousand(*m.at / end), thousand((next - *m.at) / end), span(next - *m.at)})
		}
	}
	return out
}

// field is one member of the arguments or the output.
type field struct {
	Key   string
	Text  string
	Block bool   // shown as a block of its own
	More  string // how much was cut off
}

// fieldMost is how many bytes of one field a page shows.
const fieldMost = 8 << 10

// fields takes an object apart; another value is one field without a key.
func fields(v Value) []field {
	if v.JSON == nil {
		if v.IsZero() {
			return nil
		}
		text := size(v.Bytes) + ", not shown"
		if v.Blob != "" {
			text += " (blob " + v.Blob[:min(16, len(v.Blob))] + "…)"
		}
		return []field{{Text: text}}
	}
	var object map[string]json.RawMessage
	if json.Unmarshal(v.JSON, &object) != nil || object == nil {
		return []field{newField("", v.JSON)}
	}
	var out []field
	for key, raw := range object {
		out = append(out, newField(key, raw))
	}
	slices.SortFunc(out, func(a, b field) int { return strings.Compare(a.Key, b.Key) })
	return out
}

func newField(key string, raw json.RawMessage) field {
	var text string
	if json.Unmarshal(raw, &text) != nil || string(raw) == "null" {
		var b bytes.Buffer
		if len(raw) > 100 && json.Indent(&b, raw, "", "  ") == nil {
			text = b.String()
		} else {
			text = string(raw)
		}
	} else if text == "" {
		text = `""`
	}
	f := field{Key: key, Text: text}
	if cut := len(text) - fieldMost; cut > 0 {
		sum := sha256.Sum256([]byte(text))
		f.Text = strings.Clone(strings.ToValidUTF8(text[:fieldMost], "")) // not the rest with it
		f.More = fmt.Sprintf("%s more of %d bytes, sha256 %x", size(int64(cut)), len(text), sum)
	}
	f.Block = strings.Contains(f.Text, "\n") || len(f.Text) > 120
	return f
}
