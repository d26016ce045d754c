package catalog

import (
	"encoding/json"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/tools/infer"
)

// BuiltIn is the source name under which people's decisions about built-in tools are stored. No
// source may have it.
const BuiltIn = "builtin"

// Memory keeps the seen and accepted versions of tools, and people's decisions about them, beyond
// this process. Where it fails, the tools that it is about are switched off.
type Memory interface {
	// Load returns the remembered records of a source's tools, for looking only. It is called for
	// every call of a tool, so it is quick where nothing changed.
	Load(source string) (map[tool.ID]Record, error)
	// Change lets f alter the remembered records, while no other process does. Where f reports
	// false nothing is kept.
	Change(source string, f func(map[tool.ID]Record) bool) error
}

// Record is the remembered state of one tool.
type Record struct {
	First    time.Time `json:"first_seen"`
	Last     time.Time `json:"last_seen"`          // to the hour
	Off      bool      `json:"off,omitempty"`      // a person disabled it
	Accepted *Version  `json:"accepted,omitempty"` // at first use, or by a person since; nil: it was never used
	// Seen is a tool that was never used, as it was seen last.
	Seen *Version `json:"seen,omitempty"`
	// Latest is the last seen version, if it differs from the accepted one.
	Latest *Version `json:"latest,omitempty"`
	// Looks are the versions that people were shown since then. The key "shown" of older records
	// names no person, so it counts for nobody.
	Looks *Looks `json:"looks,omitempty"`
}

// Looks are the versions that people were shown, the newest last. A record is compared with its
// former state, so its looks are replaced and never changed.
type Looks []Look

// Look is the digest of the version that a person was shown last.
type Look struct {
	Person string `json:"person"` // as "user:ann"
	Digest string `json:"digest"`
}

// maxLooks bounds the people recorded for one tool; of more, the latest are kept.
const maxLooks = 100

// digestSeenBy returns the digest that a person was shown last, "" for none.
func (l *Looks) digestSeenBy(person string) string {
	if l == nil || person == "" {
		return ""
	}
	for _, look := range *l {
		if look.Person == person {
			return look.Digest
		}
	}
	return ""
}

// withLook returns the looks with one of a person.
func (l *Looks) withLook(person, digest string) *Looks {
	var out Looks
	if l != nil {
		out = slices.DeleteFunc(slices.Clone(*l), func(look Look) bool { return look.Person == person })
	}
	out = append(out, Look{person, digest})
	out = out[max(len(out)-maxLooks, 0):]
	return &out
}

// Version is a tool as its source described it at one time: what its digest
// covers.
type Version struct {
	Digest      string          `json:"digest"`
	At          time.Time       `json:"at"`
	Title       string          `json:"title,omitempty"`
	Description string          `json:"description,omitempty"`
	Version     string          `json:"version,omitempty"`
	Source      string          `json:"source"`
	Risk        string          `json:"risk"`
	Effects     []tool.Effect   `json:"side_effects"`
	Input       json.RawMessage `json:"input_schema,omitempty"`
	Output      json.RawMessage `json:"output_schema,omitempty"`
	Hints       infer.Hints     `json:"hints"`
}

// version describes a tool as it is now.
func (l *listed) version(now time.Time) *Version {
	s := l.said
	return &Version{
		Digest: l.digest, At: now, Title: s.Title, Description: s.Description, Version: s.Version, Source: s.Source,
		Risk: s.Risk.String(), Effects: s.Effects.List(), Input: s.Input, Output: s.Output, Hints: l.hints,
	}
}

// forgetful remembers as long as the process lives.
type forgetful struct {
	mu sync.Mutex
	m  map[string]map[tool.ID]Record
}

func (m *forgetful) Load(source string) (map[tool.ID]Record, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.m[source], nil
}

func (m *forgetful) Change(source string, f func(map[tool.ID]Record) bool) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	next := maps.Clone(m.m[source])
	if next == nil {
		next = map[tool.ID]Record{}
	}
	if !f(next) {
		return nil
	}
	if m.m == nil {
		m.m = map[string]map[tool.ID]Record{}
	}
	m.m[source] = next
	return nil
}

// seenEvery is how exactly it is remembered when a tool was seen last.
const seenEvery = time.Hour

// Why a tool is disabled, for people.
const (
	offByPerson = "a person disabled it"
	offChanged  = "it changed since it was accepted"
)

// standing is the record of a tool, and the reason why it is disabled, or "".
// A use pins a tool of a source that was never used before.
func (c *Catalog) standing(l *listed, use bool) (Record, string) {
	records, err := c.memory.Load(l.source)
	if err != nil {
		return Record{}, unreadable(err)
	}
	r := records[l.entry.Spec.ID]
	if l.unseen(r, use) {
		if r, err = c.note(l, use); err != nil {
			return r, "its record cannot be written: " + fault.Message(err)
		}
	}
	return r, l.disabledReason(r)
}

func unreadable(err error) string {
	return "its record cannot be read: " + fault.Message(err)
}

// unseen reports whether the tool has to be remembered as it is now before
// anybody goes by it.
func (l *listed) unseen(r Record, use bool) bool {
	switch {
	case r.Off || l.source == BuiltIn:
		return false
	case r.Accepted == nil:
		return use
	default:
		return r.Accepted.Digest != l.digest && (r.Latest == nil || r.Latest.Digest != l.digest)
	}
}

// disabledReason says why a tool is disabled, or "".
func (l *listed) disabledReason(r Record) string {
	switch {
	case r.Off:
		return offByPerson
	case r.Accepted != nil && r.Accepted.Digest != l.digest:
		return offChanged
	}
	return ""
}

// note remembers a tool as it is now.
func (c *Catalog) note(l *listed, use bool) (Record, error) {
	var r Record
	err := c.memory.Change(l.source, func(m map[tool.ID]Record) bool {
		was, ok := m[l.entry.Spec.ID]
		r = was.seen(l, c.now(), use)
		m[l.entry.Spec.ID] = r
		return !ok || r != was
	})
	return r, err
}

// seen adds a sighting of the tool to its record.
func (r Record) seen(l *listed, now time.Time, use bool) Record {
	now = now.UTC().Truncate(time.Second)
	if r.First.IsZero() {
		r.First = now
	}
	if now.Sub(r.Last) >= seenEvery {
		r.Last = now
	}
	switch {
	case r.Accepted == nil && use:
		r.Accepted, r.Seen = l.version(now), nil
	case r.Accepted == nil && (r.Seen == nil || r.Seen.Digest != l.digest):
		r.Seen = l.version(now)
	case r.Accepted == nil:
	case r.Accepted.Digest == l.digest:
		r.Latest, r.Looks = nil, nil
	case r.Latest == nil || r.Latest.Digest != l.digest:
		r.Latest = l.version(now)
	}
	return r
}

// sight records that these tools of one source were seen, and returns the source's records; a use
// pins the tools that were never used. It writes only where something is new. With an error, why is
// why none of them can be called.
func (c *Catalog) sight(source string, tools []*listed, use bool) (records map[tool.ID]Record, why string) {
	records, err := c.memory.Load(source)
	if err != nil {
		return nil, unreadable(err)
	}
	if source == BuiltIn {
		return records, ""
	}
	now := c.now()
	if !slices.ContainsFunc(tools, func(l *listed) bool {
		was := records[l.entry.Spec.ID]
		return was.seen(l, now, use) != was
	}) {
		return records, ""
	}
	err = c.memory.Change(source, func(m map[tool.ID]Record) bool {
		for _, l := range tools {
			m[l.entry.Spec.ID] = m[l.entry.Spec.ID].seen(l, now, use)
		}
		records = m
		return true
	})
	if err != nil {
		return records, "its record cannot be written: " + fault.Message(err)
	}
	return records, ""
}
