// Package settings reads config.yaml of $REMIT_HOME. Start at [Read]; [Default]
// is what holds without a file.
package settings

import (
	"fmt"
	"log/slog"
	"math"
	"strings"
	"time"

	"github.com/remitrun/remit/internal/base/clip"
	"github.com/remitrun/remit/internal/base/document"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
)

// Settings is config.yaml.
type Settings struct {
	Database   Database
	Durability string     // of recorded intents: "power" (they survive a loss of power) or "process" (the end of the process only)
	LogLevel   slog.Level // the lowest level of logs/calls.log
	Keyring    bool       // secrets are kept in the operating system's keyring where it works
	Admins     []string   // the approvers of admins' questions, as "user:ann"; empty: the owner of $REMIT_HOME
	Tiers      Tiers
	Fresh      time.Duration // how long the tools of a source are used before it is asked again
	Models     Models
	Changes    Changes
	Sessions   Sessions
	Queue      Queue
	Limits     Limits // of remit serve
	Retention  Retention
	People     People
	Tools      map[string]Tool // by ID, or by the beginning of IDs and a final "*"

	Notifications Notifications
	Witnesses     []Witness // that checkpoints are sent to
	WitnessOf     []string  // public keys of the ledgers that remit serve is a witness of
	Hooks         []Hook    // called around calls, in order
	Search        Search    // of the web
}

// Changes bound how long writes can be undone. Changesets that nobody has applied
// or discarded are kept in any case.
type Changes struct {
	KeepDays  int   // after the changeset was applied or discarded; 0: without limit
	KeepBytes int64 // of all copies, the oldest are removed first; 0: without limit
}

// Age is KeepDays as a time.
func (c Changes) Age() time.Duration { return time.Duration(c.KeepDays) * day }

// Retention is how long payloads are kept in the ledger. Events are kept for good.
type Retention struct {
	RunDays     int // since a run ended; 0: for good
	SessionDays int // since a session was deleted; 0: for good

	WholeMonths bool // payloads that ended in one month are erased at once, when all of them are due
}

const (
	day     = 24 * time.Hour
	maxDays = 36_500
)

// Sessions are the limits on the files of one session of an agent.
type Sessions struct {
	FileBytes int64 // of all its files
	FileCount int   // of its files and folders
}

// Queue bounds queued runs.
type Queue struct {
	AtOnce  int            // runs that one process carries out at the same time
	Waiting int            // runs that may wait, half of them under one root grant
	RunTime time.Duration  // of a run, from its start: then it is ended
	Limits  map[string]int // runs at the same time, by "grant" (for each), "tool:ID" and "source:NAME"
}

// Tiers bound the calls of the tools of each server, extension or other provider, by the
// kind of its source, over all runs of the process. Built-in tools have no such bounds.
type Tiers struct {
	Extension Tier // extensions installed here
	LocalMCP  Tier // MCP servers that Remit starts
	RemoteMCP Tier // MCP servers elsewhere
	Cloud     Tier // other services, and unknown sources
}

// Tier is the bounds of one kind of source.
type Tier struct {
	PerMinute int           // calls that each holder of grants begins in any minute
	AtOnce    int           // calls at the same time
	RunTime   time.Duration // of one call
	Wait      time.Duration // for a call's turn
}

// Tool holds the operator's settings for tools; they replace the inferred ones.
type Tool struct {
	Risk    *tool.Risk    // nil: as inferred
	Effects *tool.Effects // nil: as inferred
	Trusted bool          // the source's claims about the tool are believed, as that it only reads
	AnyName bool          // the name may look like another tool's
}

// Default is the settings without a config.yaml.
func Default() Settings {
	return Settings{
		Durability: "power",
		Keyring:    true,
		Tiers: Tiers{
			Extension: Tier{600, 16, 5 * time.Minute, time.Minute},
			LocalMCP:  Tier{300, 8, 5 * time.Minute, time.Minute},
			RemoteMCP: Tier{60, 4, 2 * time.Minute, time.Minute},
			Cloud:     Tier{30, 2, time.Minute, time.Minute},
		},
		Fresh:    time.Minute,
		Changes:  Changes{KeepDays: 30, KeepBytes: 5 << 30},
		Sessions: Sessions{FileBytes: 100 << 20, FileCount: 10_000},
		Queue:    Queue{AtOnce: 4, Waiting: 10_000, RunTime: 24 * time.Hour},
	}
}

// Read reads config.yaml over the defaults. Every problem is reported at once
// (fault.List, code Usage) with line, column and field.
func Read(file string, src []byte) (Settings, error) {
	s := Default()
	r := &reader{document.NewReader(file, document.Options{Code: fault.Usage, Noun: "settings file"})}
	if isEmpty(string(src)) {
		return s, nil
	}
	if root := r.Read(src); root != nil {
		r.settings(root, &s)
	}
	return s, r.Err()
}

// isEmpty reports a file of nothing but comments.
func isEmpty(src string) bool {
	for line := range strings.Lines(src) {
		if line = strings.TrimSpace(line); line != "" && line[0] != '#' {
			return false
		}
	}
	return true
}

type reader struct{ *document.Reader }

func (r *reader) settings(root *document.Node, s *Settings) {
	r.Mapping(root, "", document.Fields{
		"ledger": r.Object(document.Fields{"durability": r.OneOf(&s.Durability, "power", "process"),
			"database": r.database(&s.Database.URL), "lease": r.lease(&s.Database.Lease)}),
		"logs":    r.Object(document.Fields{"level": r.level(&s.LogLevel)}),
		"secrets": r.Object(document.Fields{"keyring": r.Bool(&s.Keyring)}),
		"approvals": r.Object(document.Fields{"admins": r.Strings(&s.Admins, 0, func(s string) error {
			if kind, name, ok := strings.Cut(s, ":"); !ok || kind == "" || name == "" {
				return fmt.Errorf("%q is not a valid principal; expected KIND:NAME, as user:ann", clip.Text(s, 60))
			}
			return nil
		})}),
		"sources": r.Object(document.Fields{"extension": r.tier(&s.Tiers.Extension), "mcp_local": r.tier(&s.Tiers.LocalMCP),
			"mcp_remote": r.tier(&s.Tiers.RemoteMCP), "cloud": r.tier(&s.Tiers.Cloud)}),
		"catalog":       r.Object(document.Fields{"fresh": r.Duration(&s.Fresh)}),
		"models":        r.Object(r.models(&s.Models)),
		"notifications": r.Object(r.notifications(&s.Notifications)),
		"hooks":         func(n *document.Node, path string) { r.hooks(n, path, &s.Hooks) },
		"witnesses":     func(n *document.Node, path string) { r.witnesses(n, path, &s.Witnesses) },
		"search":        func(n *document.Node, path string) { r.search(n, path, &s.Search) },
		"witness_of":    r.Strings(&s.WitnessOf, 0, checkLedgerKey),
		"changes": r.Object(document.Fields{"keep_days": document.Int(r.Reader, &s.Changes.KeepDays, 0, math.MaxInt64/int64(day)),
			"keep_bytes": r.sizeOrNone(&s.Changes.KeepBytes)}),
		"sessions": r.Object(document.Fields{"files": r.Object(document.Fields{
			"bytes": r.sizeOrNone(&s.Sessions.FileBytes), "count": document.Int(r.Reader, &s.Sessions.FileCount, 0, math.MaxInt32)})}),
		"limits": r.Object(r.limitsFields(&s.Limits)),
		"queue": r.Object(document.Fields{"at_once": document.Int(r.Reader, &s.Queue.AtOnce, 1, 1000), "waiting": document.Int(r.Reader, &s.Queue.Waiting, 1, 1_000_000), "run_time": r.Duration(&s.Queue.RunTime),
			"limits": func(n *document.Node, path string) { r.limits(n, path, &s.Queue) }}),
		"retention": r.Object(document.Fields{"runs_days": document.Int(r.Reader, &s.Retention.RunDays, 0, maxDays),
			"deleted_sessions_days": document.Int(r.Reader, &s.Retention.SessionDays, 0, maxDays), "whole_months": r.Bool(&s.Retention.WholeMonths)}),
		"people": func(n *document.Node, path string) { r.people(n, path, &s.People) },
		"tools": func(n *document.Node, path string) {
			s.Tools = map[string]Tool{}
			r.Each(n, path, func(k, v *document.Node, path string) { s.Tools[k.Text] = r.tool(k, v, path) })
		},
	})
}

// limits reads the limits of queued runs.
func (r *reader) limits(n *document.Node, path string, q *Queue) {
	q.Limits = map[string]int{}
	r.Each(n, path, func(k, v *document.Node, path string) {
		if k.Text != "grant" && !strings.HasPrefix(k.Text, "tool:") && !strings.HasPrefix(k.Text, "source:") {
			r.Fail(k, path, "%q is not a valid limit; expected grant, tool:ID or source:NAME", clip.Text(k.Text, 60))
			return
		}
		most := 0
		document.Int(r.Reader, &most, 1, 1000)(v, path)
		q.Limits[k.Text] = most
	})
}

func (r *reader) level(into *slog.Level) document.Field {
	return func(n *document.Node, path string) {
		word := ""
		if r.OneOf(&word, "DEBUG", "INFO", "WARN", "ERROR")(n, path); word != "" {
			*into = map[string]slog.Level{"DEBUG": slog.LevelDebug, "INFO": slog.LevelInfo, "WARN": slog.LevelWarn, "ERROR": slog.LevelError}[word]
		}
	}
}

// sizeOrNone makes a field of a size that may be 0.
func (r *reader) sizeOrNone(into *int64) document.Field {
	return func(n *document.Node, path string) {
		v, err := document.ParseSize(n.Text)
		if n.Kind != document.String && n.Kind != document.Number || err != nil {
			r.Expected(n, path, "a size such as 4096, 100MiB or 5GiB, or 0")
			return
		}
		*into = v
	}
}

func (r *reader) tier(t *Tier) document.Field {
	return r.Object(document.Fields{
		"per_minute": document.Int(r.Reader, &t.PerMinute, 1, math.MaxInt32),
		"at_once":    document.Int(r.Reader, &t.AtOnce, 1, math.MaxInt32),
		"run_time":   r.Duration(&t.RunTime),
		"wait":       r.Duration(&t.Wait),
	})
}

func (r *reader) tool(k, v *document.Node, path string) (t Tool) {
	if _, err := tool.ParseID(strings.TrimSuffix(k.Text, "*")); err != nil {
		r.Fail(k, path, "%q is not a tool ID, nor the beginning of one and *", clip.Text(k.Text, 60))
	}
	r.Mapping(v, path, document.Fields{
		"risk": r.Accept(func(s string) error {
			risk, ok := tool.ParseRisk(s)
			if t.Risk = &risk; !ok {
				return fmt.Errorf("%q is not low, medium, high or critical", clip.Text(s, 60))
			}
			return nil
		}),
		"effects": func(n *document.Node, path string) {
			t.Effects = new(tool.Effects)
			r.List(0, r.Accept(func(s string) error {
				var e tool.Effect
				if err := e.UnmarshalText([]byte(s)); err != nil {
					return err
				}
				*t.Effects |= tool.EffectSet(e)
				return nil
			}))(n, path)
		},
		"trusted":  r.Bool(&t.Trusted),
		"any_name": r.Bool(&t.AnyName),
	})
	return t
}
