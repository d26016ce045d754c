package policy

import (
	"slices"
	"strings"

	"github.com/remitrun/remit/internal/base/document"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
)

// Standard is the word for the flows that suit every policy: acts on the orders of untrusted data
// need approval, and the answers to requests with a stored secret go only to the hosts of that
// secret.
const Standard = "standard"

// standardAsks are the entries of ask_steered of the standard flows: pushes, requests, sent
// messages, payments and deletions. Those about Git name the effects of [command.GitEffect].
var standardAsks = []string{
	"commands git push **", "commands git remote add **", "commands git remote set-url **", "commands git remote **", "commands git config **", "commands git clean **", "network **",
	"tools mcp:*", "tools agent:*", "side_effects payments", "side_effects fs.delete", "side_effects database.delete", "side_effects cloud.resource_delete",
}

// acting are words in the names of tools that send or publish. With those of destroying they
// say which tools the entries "tools mcp:*" and "tools agent:*" of the standard flows mean, unless the name begins
// with one of reading.
var (
	acting  = strings.Fields("send post publish forward reply share invite upload email mail message notify tweet comment pay transfer submit broadcast")
	reading = strings.Fields("get list search read find fetch view show count check describe query lookup browse")
)

// actsByName reports whether the name of a tool says that it sends, publishes or deletes.
func actsByName(id tool.ID) bool {
	name := string(id)
	words := tool.Words(name[strings.LastIndexByte(name, ':')+1:])
	return len(words) > 0 && !slices.Contains(reading, words[0]) && slices.ContainsFunc(words, func(w string) bool {
		return slices.Contains(acting, w) || slices.Contains(destroying, w)
	})
}

// standardText are arguments that are text for people by their names.
const standardText = "mcp:* subject,body,text,message,content,title,description,comment,summary"

// standardSecret begins the label of a stored secret's answers.
const standardSecret = "secret-"

// flowsWord reads flows: standard, or standard: true among flows.
func (s *dataSettings) flowsWord(p *parser, n *document.Node, path string) {
	switch {
	case n.Is(Standard), n.Kind == document.Bool && n.Text == "true" && path != "flows":
		s.standard = p.Pos(n)
	default:
		if e := p.Expected(n, path, "standard, or a mapping"); n.Kind == document.String {
			e.Hint = meant(n.Text, []string{Standard})
		}
	}
}

// addStandard adds what flows: standard stands for.
func (d *content) addStandard(p *parser) {
	s := &d.data
	if s.standard == (fault.Pos{}) || p.Failed() {
		return
	}
	s.own.labels, s.own.flows = slices.Clip(s.labels), slices.Clip(s.flows)
	line := s.standard.Line
	entry := func(text string, sections []string, wide bool) (FlowEntry, bool) {
		e, err := parseFlowEntry(text, sections, wide)
		if err != nil {
			p.Fail(&document.Node{Line: line, Column: s.standard.Column}, "flows", "%q, which standard stands for, is not valid: %s", text, plain(err))
		}
		e.Line, e.pos, e.standard = line, s.standard, true
		return e, err == nil
	}
	at := slices.IndexFunc(s.flows, func(f Flow) bool { return f.Label == Untrusted })
	if s.flows = slices.Clone(s.flows); at < 0 {
		at, s.flows = len(s.flows), append(s.flows, Flow{Label: Untrusted, Line: line})
	}
	f := &s.flows[at]
	f.Steered, f.Text = slices.Clip(f.Steered), slices.Clip(f.Text)
	for _, text := range standardAsks {
		if e, ok := entry(text, asks, true); ok {
			f.Steered = append(f.Steered, e)
		}
	}
	id, names, _ := strings.Cut(standardText, " ")
	if name, err := compileToolName(id, false); err == nil {
		f.Text = append(f.Text, FlowEntry{Section: id, Pattern: names, Line: line, pos: s.standard, name: name, standard: true})
	}
	for _, secret := range d.sentSecrets() {
		name := standardSecret + secret.name
		if slices.ContainsFunc(s.labels, func(l Label) bool { return l.Name == name }) {
			continue // the document defines it
		}
		l := Label{Name: name, Confidential: true, Line: line}
		fl := Flow{Label: name, Line: line, only: true}
		if e, ok := entry("secrets "+secret.name, sources, true); ok {
			l.From = append(l.From, e)
		}
		for _, host := range secret.hosts {
			if e, ok := entry("network "+host, sinks, false); ok {
				fl.Only = append(fl.Only, e)
			}
		}
		if e, ok := entry("files **", sinks, false); ok {
			e.sink = true
			fl.Only = append(fl.Only, e)
		}
		s.labels, s.flows = append(slices.Clip(s.labels), l), append(s.flows, fl)
	}
}

type sentSecret struct {
	name  string
	hosts []string
}

// sentSecrets are the stored secrets that requests are given, and the hosts of each. A secret
// that is also given to processes without naming hosts is not among them: where it is used is
// not known.
func (d *content) sentSecrets() []sentSecret {
	var out []sentSecret
	add := func(name, host string) {
		at := slices.IndexFunc(out, func(s sentSecret) bool { return s.name == name })
		if at < 0 {
			at, out = len(out), append(out, sentSecret{name: name})
		}
		if !slices.Contains(out[at].hosts, host) {
			out[at].hosts = append(out[at].hosts, host)
		}
	}
	for e := Ask; e <= Allow; e++ {
		for _, en := range d.network.lists[e] {
			if p, ok := en.pattern.(*networkPattern); ok && p.secret != nil && p.secret.Store != "" {
				add(p.secret.Store, p.text)
			}
		}
	}
	for _, u := range d.secrets.list {
		for _, h := range u.Hosts {
			add(u.Name, h)
		}
	}
	return slices.DeleteFunc(out, func(s sentSecret) bool {
		return slices.ContainsFunc(d.secrets.list, func(u secretUse) bool { return u.Name == s.name && len(u.Hosts) == 0 })
	})
}
