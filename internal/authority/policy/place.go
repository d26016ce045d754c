package policy

import (
	"fmt"
	"slices"
	"strings"

	"github.com/remitrun/remit/internal/base/document"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/regex"
)

// Place is where commands run.
type Place uint8

// The places. The zero Place is the machine of the process that decides.
const (
	Local Place = iota
	Container
	Remote
)

var placeNames = [...]string{"local", "container", "remote"}

// String gives the word that policies use.
func (p Place) String() string {
	if int(p) < len(placeNames) {
		return placeNames[p]
	}
	return "unknown"
}

// Placement is where the commands of a chain may run. The zero Placement allows no place.
type Placement struct {
	Places []Place  // in the order of preference
	Labels []string // that a worker needs, sorted
	Image  string   // the digest of the image of a container; "": no policy names one

	conflict string // the contradiction, if Places is empty because of one
}

// Allows reports whether commands may run in a place.
func (p Placement) Allows(at Place) bool { return slices.Contains(p.Places, at) }

// Refusal is the error of a command that may not run in a place.
func (p Placement) Refusal(at Place) error {
	if len(p.Places) == 0 {
		return fault.New(fault.HandleRefused, "commands may run nowhere: %s", p.conflict).
			WithHint("every policy of the chain must name the same place in where, or say rest: inherit")
	}
	return fault.New(fault.HandleRefused, "the policy's where is %s, and this command can only run with %s", p.words(), at).
		WithHint("add %s to where, or use a call that can run elsewhere", at)
}

func (p Placement) words() string {
	words := make([]string, len(p.Places))
	for i, at := range p.Places {
		words[i] = at.String()
	}
	return strings.Join(words, " or ")
}

// placeSettings are the keys where, worker_labels and image.
type placeSettings struct {
	places []string // nil: not set
	labels []string
	image  string // "": not set
}

// settings makes the settings. A list in labels is of worker_labels, and a mapping is of data.
func (s *placeSettings) settings(data *dataSettings) []setting {
	labels := func(p *parser) document.Field { return p.Strings(&s.labels, maxLabels, checkLabel) }
	return []setting{
		{"where", s.read, func(w *printer, in int) {
			switch len(s.places) {
			case 0:
			case 1:
				w.line(in, "where: %s", s.places[0])
			default:
				w.line(in, "where: [%s]", strings.Join(s.places, ", "))
			}
		}},
		value("worker_labels", labels, func() string {
			if !data.labelled() {
				return ""
			}
			return quoteAll(s.labels)
		}),
		{"labels", func(p *parser) document.Field {
			return func(n *document.Node, path string) {
				if n.Kind == document.List {
					labels(p)(n, path)
					return
				}
				data.readLabels(p, n, path)
			}
		}, func(w *printer, in int) {
			if data.printLabels(w, in); !data.labelled() && s.labels != nil {
				w.line(in, "labels: %s", quoteAll(s.labels))
			}
		}},
		value("image", func(p *parser) document.Field { return p.String(&s.image, checkImage) }, func() string { return s.image }),
	}
}

// check refuses labels and an image that nothing would read.
func (s *placeSettings) check(p *parser, root *document.Node, path string, inherit bool) {
	for key, at := range map[string]Place{"labels": Remote, "worker_labels": Remote, "image": Container} {
		n := root.Lookup(key)
		if n == nil || key == "labels" && n.Kind != document.List || slices.Contains(s.places, at.String()) || s.places == nil && inherit {
			continue
		}
		p.Fail(n, path+key, "%s is for where: %s, and this policy does not say that", key, at).Hint = fmt.Sprintf("add %s to where, or remove %s", at, key)
	}
}

// read reads one place, or a list of them.
func (s *placeSettings) read(p *parser) document.Field {
	one := func(n *document.Node, path string) {
		var word string
		before := p.Problems()
		p.OneOf(&word, placeNames[:]...)(n, path)
		switch {
		case p.Problems() != before:
		case slices.Contains(s.places, word):
			p.Fail(n, path, "%s is listed twice", word)
		default:
			s.places = append(s.places, word)
		}
	}
	return func(n *document.Node, path string) {
		if n.Kind != document.List {
			one(n, path)
			return
		}
		p.List(len(placeNames), one)(n, path)
		if len(n.Items) == 0 {
			p.Expected(n, path, "at least one of "+strings.Join(placeNames[:], ", "))
		}
	}
}

// maxLabels bounds the labels of a policy, and of a worker.
const maxLabels = 16

var labelForm = regex.Lazy(`^[a-z0-9](?:[a-z0-9._-]{0,61}[a-z0-9])?$`)

var imageForm = regex.Lazy(`^sha256:[0-9a-f]{64}$`)

func checkImage(s string) error {
	if !imageForm.MatchString(s) {
		return fmt.Errorf("%q is not the ID of an image; expected sha256: and 64 hexadecimal digits, as \"remit image show NAME\" shows it", s)
	}
	return nil
}

func checkLabel(s string) error {
	if !labelForm.MatchString(s) {
		return fmt.Errorf("%q is not a valid label; expected 1 to 63 of a-z, 0-9, \".\", \"_\" and \"-\", as gpu", s)
	}
	return nil
}

// CheckLabels reports whether labels have the form that policies and workers use.
func CheckLabels(labels []string) error {
	if len(labels) > maxLabels {
		return fault.New(fault.ArgsInvalid, "there are %d labels; the limit is %d", len(labels), maxLabels)
	}
	for _, l := range labels {
		if err := checkLabel(l); err != nil {
			return fault.Wrap(fault.ArgsInvalid, err, "%v", err)
		}
	}
	return nil
}

// Placement is where commands may run: in the places that every link names, in the order
// of the first link that names some. A link that names none stands for local, unless it
// leaves missing sections to the others. Labels add up.
func (c Chain) Placement() Placement {
	var out Placement
	named, imaged := "", "" // the policies that named the places, and the image
	for _, r := range c {
		if r == nil || r.policy == nil {
			return Placement{conflict: "a policy of the chain is missing"}
		}
		d := r.policy.content()
		out.Labels = append(out.Labels, d.place.labels...)
		if d.place.image != "" && out.Image != "" && d.place.image != out.Image {
			return Placement{conflict: fmt.Sprintf("policy %q says image: %s, and policy %q says image: %s", imaged, out.Image, r.policy.Name(), d.place.image)}
		}
		if d.place.image != "" {
			out.Image, imaged = d.place.image, r.policy.Name()
		}
		list := d.place.list()
		if d.place.places == nil && d.inherit {
			continue
		}
		if out.Places == nil {
			out.Places, named = list, r.policy.Name()
			continue
		}
		both := slices.DeleteFunc(slices.Clone(out.Places), func(at Place) bool { return !slices.Contains(list, at) })
		if len(both) == 0 {
			return Placement{conflict: fmt.Sprintf("policy %q says where: %s, and policy %q says where: %s",
				named, out.words(), r.policy.Name(), Placement{Places: list}.words())}
		}
		out.Places = both
	}
	if out.Places == nil {
		out.Places = []Place{Local}
	}
	slices.Sort(out.Labels)
	out.Labels = slices.Compact(out.Labels)
	return out
}

// image is the image that commands see, and whether they may see the machine's system where
// the image is not there.
func (c Chain) image() (digest string, orLocal bool) {
	if !slices.ContainsFunc(c, func(r *Rules) bool { return r != nil && r.policy != nil && r.policy.content().place.image != "" }) {
		return "", false
	}
	at := c.Placement()
	first := slices.IndexFunc(at.Places, func(p Place) bool { return p != Remote })
	if first < 0 || at.Places[first] != Container {
		return "", false
	}
	return at.Image, at.Allows(Local)
}

// list gives the places of one document.
func (s *placeSettings) list() []Place {
	out := []Place{}
	for _, word := range s.places {
		out = append(out, Place(slices.Index(placeNames[:], word)))
	}
	if len(out) == 0 {
		out = append(out, Local)
	}
	return out
}

// carryPlaces keeps the places that all links allow.
func (c Chain) carryPlaces(d *content) error {
	at := c.Placement()
	if len(at.Places) == 0 {
		return fault.New(fault.PolicyInvalid, "the policies of the chain cannot be written as one: %s", at.conflict)
	}
	d.place = placeSettings{}
	if at.Allows(Remote) && len(at.Labels) > 0 {
		d.place.labels = at.Labels
	}
	if at.Allows(Container) {
		d.place.image = at.Image
	}
	if len(at.Places) == 1 && at.Places[0] == Local {
		return nil
	}
	for _, p := range at.Places {
		d.place.places = append(d.place.places, p.String())
	}
	return nil
}
