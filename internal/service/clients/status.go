package clients

import (
	"os"
	"slices"
	"strings"
	"time"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/service/home"
)

// State is the known state of one installation.
type State struct {
	Installed
	Title    string
	Present  bool     // all entries are there, and the program exists
	Problems []string // why the hook may not hold
	Limits   []string // what it cannot guarantee
	Next     string   // the person's next step
}

// Held reports whether the installation is whole and was proved.
func (s State) Held() bool {
	return s.Present && len(s.Problems) == 0 && (s.Command == "" || s.Proof != nil && s.Proof.OK)
}

// Status describes all installations, or those of one agent.
func (s *Clients) Status(name string) ([]State, error) {
	if name != "" {
		if _, err := find(name); err != nil {
			return nil, err
		}
	}
	list, err := s.installed().List()
	if err != nil {
		return nil, err
	}
	var out []State
	for _, one := range list {
		if name == "" || one.Agent == name {
			st, err := s.state(one)
			if err != nil {
				return nil, err
			}
			out = append(out, st)
		}
	}
	return out, nil
}

// Find describes the installation with a key.
func (s *Clients) Find(key string) (State, error) {
	one, err := s.installed().Find(key)
	if err != nil {
		return State{}, err
	}
	return s.state(one)
}

func (s *Clients) state(one Installed) (State, error) {
	a, err := find(one.Agent)
	if err != nil {
		return State{}, err
	}
	st := State{Installed: one, Title: a.title, Limits: slices.Clone(a.limits), Next: a.next, Present: true}
	switch {
	case one.Command == "":
		st.Limits, st.Next = nil, "give it the tools of Remit: claude mcp add remit -- remit mcp serve"
	case one.Scope != Project:
		st.Limits = append([]string{elsewhere}, st.Limits...)
	}
	if one.Scope == Managed && a.name == "codex" {
		st.Next = "" // the machine's settings need nobody's trust
	}
	if one.Command != "" && !one.Confine {
		st.Limits = append([]string{unconfined}, st.Limits...)
	}
	missing := func(format string, args ...any) {
		st.Present = false
		st.Problems = append(st.Problems, fault.New(fault.Usage, format, args...).Msg)
	}
	at, err := a.place(one.Scope, s, one.Folder)
	if err != nil {
		return st, err
	}
	switch b, err := at.read(); {
	case err != nil:
		missing("%s", fault.Message(err))
	case b == nil:
		missing("%s is gone", one.File)
	case digest(b) != one.After:
		if n := absent(one.File, b, one.Edits); n != 0 {
			missing("%d of %d entries in %s were changed or removed", n, len(one.Edits), one.File)
		}
	}
	if exe := program(one.Command); exe != "" {
		if sys, err := os.Stat(exe); err != nil || sys.Mode()&0o111 == 0 {
			missing("the program of the hook is gone: %s", exe)
		}
	}
	st.Problems = append(st.Problems, threats(a, one)...)
	st.Problems = append(st.Problems, s.switchedOff(a, one)...)
	if one.Scope == Project && one.Command != "" && !strings.Contains(one.Command, " -p ") && s.Policy != nil {
		if why := s.Policy(one.Folder); why != "" {
			st.Problems = append(st.Problems, why)
		}
	}
	if one.Folder != "" {
		st.Limits = append(st.Limits, foreignHooks(a, one)...)
	}
	return st, nil
}

// absent counts the edits that a configuration does not have.
func absent(file string, src []byte, edits []Edit) (n int) {
	doc, err := open(file, src)
	if err != nil {
		return len(edits)
	}
	for _, e := range edits {
		if !has(doc, e) {
			n++
		}
	}
	return n
}

// program is the first word of a hook's command line.
func program(command string) string {
	if rest, quoted := strings.CutPrefix(command, "'"); quoted {
		word, _, _ := strings.Cut(rest, "' ")
		return strings.ReplaceAll(word, `'\''`, "'")
	}
	word, _, _ := strings.Cut(command, " ")
	return word
}

// noted keeps the result of a proof with the installation.
func (s *Clients) noted(one Installed, p Proof) error {
	return s.installed().Change("prove", one.Key(), func(list []Installed) ([]Installed, error) {
		now, known := home.Entry(list, one.Key())
		if !known {
			return nil, fault.New(fault.Conflict, "the hook of %s was removed meanwhile", one.Agent)
		}
		p.At = time.Now().UTC().Truncate(time.Second)
		now.Proof = &p
		return home.With(list, now), nil
	}, nil)
}
