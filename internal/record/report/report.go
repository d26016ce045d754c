// Package report makes a run readable: as text for a terminal, as JSON for
// programs, and as one HTML page that needs nothing else. It is pure: who calls
// it loads the record. Start at [Data], [Text], [JSON] and [HTML].
//
// Secrets are taken out before anything is drawn, and every text that comes from
// a plan, a tool or a policy is shown and never obeyed.
package report

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"math"
	"time"

	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/redact"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/record/ledger"
)

// Version is the version of the JSON report's format.
const Version = "1"

// MaxPart is the size in bytes up to which arguments and outputs are part of a
// report. Larger ones are listed by size and address and need not be loaded.
const MaxPart = 64 << 10

// Data is the input of a report: a run, its calls in the order of their index, and
// the loaded parts of both. A report draws long runs without holding all calls.
type Data struct {
	Generated time.Time // when the report is made
	Remit     string    // the version of Remit that makes it; may be empty
	Run       ledger.Run
	Parts     map[string][]byte      // of the run: ledger.PartPlan, PartPolicy, PartInputs
	Record    *Record                // nil: the record was not verified
	Calls     iter.Seq2[Call, error] // read once, one after the other; nil: there are none
	Redactor  *redact.Redactor       // nil: knows the well-known formats only

	// Output loads the whole output of a call that has pictures; nil: pictures are not shown.
	Output func(c ledger.Call) ([]byte, error)
}

// Call is one call with its loaded parts. A part that ledger.Call.Parts lists but Loaded does not
// have is listed by its size.
type Call struct {
	ledger.Call
	Loaded map[string][]byte // by part name, as ledger.PartArgs
}

// MaxArgs is the size in bytes up to which the call's arguments are part of a report: arguments
// shown in a question to a person always are.
func (c Call) MaxArgs() int64 {
	if c.Effect == policy.Ask {
		return math.MaxInt64
	}
	return MaxPart
}

// Report is the JSON report of a run. The order of the fields here is the order in
// the file.
type Report struct {
	Version     string    `json:"report_version"` // [Version]
	GeneratedAt time.Time `json:"generated_at"`
	Remit       string    `json:"remit_version,omitempty"`
	Run         Run       `json:"run"`
	Record      *Record   `json:"record,omitempty"`
	Plan        Plan      `json:"plan"`
	Policy      []Policy  `json:"policy"` // the chain, outermost first
	Steps       []Step    `json:"steps"`
	Summary     Summary   `json:"summary"`
}

// Record is what the verification of the run's record found, when the report was made.
type Record struct {
	OK       bool   `json:"ok"`
	Events   uint64 `json:"events"`   // of the run, that were verified
	Size     uint64 `json:"size"`     // of the ledger
	Signed   uint64 `json:"signed"`   // how many of the ledger's events the newest signed checkpoint covers
	Problems int    `json:"problems"` // records that were altered
}

func (r *Record) String() string {
	switch {
	case r == nil:
		return ""
	case !r.OK:
		return fmt.Sprintf("record not verified: %d problems; remit verify lists them", r.Problems)
	}
	return fmt.Sprintf("record verified up to event %d: %d events of this run; signed up to event %d", r.Size, r.Events, r.Signed)
}

// Run is the run's own record.
type Run struct {
	ID        string     `json:"id"`
	Name      string     `json:"name,omitempty"`
	Mode      string     `json:"mode"`   // "run" or "replay"
	Status    string     `json:"status"` // "running", or how it ended
	Principal string     `json:"principal,omitempty"`
	Workspace string     `json:"workspace,omitempty"`
	ReplayOf  string     `json:"replay_of,omitempty"`
	Phase     string     `json:"phase,omitempty"`  // "planning": only calls without side effects were let through
	Frozen    string     `json:"frozen,omitempty"` // digest of the frozen plan whose calls were all that could be made
	Client    string     `json:"client,omitempty"` // the program that carries out the calls itself; Remit only decides them
	StartedAt time.Time  `json:"started_at"`
	EndedAt   *time.Time `json:"ended_at"` // null while running

	Unverified bool `json:"unverified,omitempty"` // the ledger's list of runs says something else than the run's events
}

// Plan is the plan that was run.
type Plan struct {
	Digest string `json:"digest,omitempty"` // of the source as it was given
	Source string `json:"source,omitempty"` // with secrets taken out
	Inputs Value  `json:"inputs,omitzero"`
}

// Policy is one policy of the chain that bounded the run.
type Policy struct {
	Name   string `json:"name"`
	File   string `json:"file,omitempty"`
	Digest string `json:"digest,omitempty"`
	Source string `json:"source,omitempty"` // with secrets taken out
}

// Step is one call.
type Step struct {
	Index       int         `json:"index"` // from 1
	ID          string      `json:"id,omitempty"`
	Name        string      `json:"name,omitempty"`
	Tool        string      `json:"tool"`
	Risk        string      `json:"risk"`
	Args        Value       `json:"args,omitzero"`
	Status      string      `json:"status"` // completed, denied, failed, timeout, cancelled, skipped, interrupted, pending
	Output      Value       `json:"output,omitzero"`
	Error       *Error      `json:"error,omitempty"`
	Decision    Decision    `json:"decision,omitzero"` // left out where the call did not come to one
	StartedAt   time.Time   `json:"started_at"`
	DurationMS  float64     `json:"duration_ms"`
	Timeline    Timeline    `json:"timeline"`
	Hashes      Hashes      `json:"hashes"`
	SideEffects SideEffects `json:"side_effects"`
	Client      string      `json:"client,omitempty"`   // carries out the call itself
	Reported    bool        `json:"reported,omitempty"` // status and output are the client's word
	Erased      bool        `json:"erased,omitempty"`   // arguments and output were erased from the record
	// Notes are those of hooks, by the stage of the call: asked, before, after or
	// denied.
	Notes map[string]string `json:"notes,omitempty"`
	// Commitment is the condition that the step checks, as "run go test ./...".
	Commitment string `json:"commitment,omitempty"`

	Left int `json:"-"` // steps before this one that a short report leaves out

	offset   time.Duration // since the run began
	pictures func() ([]Picture, error)
}

// Executor says who carried out the step and whose word its outcome is; "" for Remit.
func (s Step) Executor() string {
	switch {
	case s.Reported:
		return "reported by " + s.Client
	case s.Client != "":
		return "left to " + s.Client
	}
	return ""
}

// Value is a JSON value with secrets taken out, or the size of one that is too
// large: {"truncated": true, "bytes_total": n, "blob": "..."}.
type Value struct {
	JSON  json.RawMessage
	Bytes int64  // of the whole, when JSON is nil
	Blob  string // where the ledger keeps it, hexadecimal; may be empty
}

// IsZero reports that there is no value.
func (v Value) IsZero() bool { return v.JSON == nil && v.Bytes == 0 }

// MarshalJSON prints the value, or the size and address of one that is too large.
func (v Value) MarshalJSON() ([]byte, error) {
	switch {
	case v.JSON != nil:
		return v.JSON, nil
	case v.IsZero():
		return []byte("null"), nil
	}
	return json.Marshal(struct {
		Truncated bool   `json:"truncated"`
		Total     int64  `json:"bytes_total"`
		Blob      string `json:"blob,omitempty"`
	}{true, v.Bytes, v.Blob})
}

// UnmarshalJSON reads any value as it is, also the size of one that is too large: a call's
// own arguments could look like that.
func (v *Value) UnmarshalJSON(b []byte) error {
	*v = Value{}
	if string(b) != "null" {
		v.JSON = bytes.Clone(b)
	}
	return nil
}

// Error is why a call did not complete.
type Error struct {
	Code    string `json:"code"` // as "E1001"
	Message string `json:"message"`
}

// Decision is the decision of the policies on a call.
type Decision struct {
	Effect   string           `json:"effect"` // allow, ask, deny
	Rule     string           `json:"rule"`   // the deciding entry, or "default"
	Reason   string           `json:"reason,omitempty"`
	Policy   string           `json:"policy,omitempty"`
	File     string           `json:"file,omitempty"`
	Line     int              `json:"line,omitempty"`
	Approved bool             `json:"approved,omitempty"` // a person said yes
	Refusals []ledger.Refusal `json:"refusals,omitempty"` // every rule that denied or asked
}

// Timeline is when the call entered each state, in milliseconds since it was
// created. A state that it never entered is left out.
type Timeline struct {
	Created    *float64 `json:"CREATED"`
	Validating *float64 `json:"VALIDATING,omitempty"`
	Executing  *float64 `json:"EXECUTING,omitempty"`
	Processing *float64 `json:"PROCESSING,omitempty"`
	Logging    *float64 `json:"LOGGING,omitempty"`
	Ended      *float64 `json:"ENDED,omitempty"`
}

// Hashes are SHA-256 of recorded values. A hash is left out if part of its value was
// redacted or not loaded: a short secret could be guessed from its hash.
type Hashes struct {
	Tool   string `json:"tool,omitempty"`
	Args   string `json:"args,omitempty"`
	Output string `json:"output,omitempty"`
}

// SideEffects are the effects that the tool declares, the effects that the call had, and the
// attempts that were refused while it ran.
type SideEffects struct {
	Declared []string   `json:"declared,omitempty"` // recorded with an intent
	Happened []Happened `json:"happened"`
	More     int        `json:"more,omitempty"` // further ones that the record counts only

	Refused     []tool.Refused `json:"refused,omitempty"`
	RefusedMore int            `json:"refused_more,omitempty"` // further attempts that the record counts only
}

// Happened is one side effect that a call had.
type Happened struct {
	Effect string `json:"effect"`
	On     string `json:"on"`
	Bytes  int64  `json:"bytes,omitempty"`

	// Of a connection of a confined process, see tool.Happened.
	Received int64  `json:"received,omitempty"`
	Address  string `json:"address,omitempty"`
	Rule     string `json:"rule,omitempty"`
	Purpose  string `json:"purpose,omitempty"`
	Place    string `json:"place,omitempty"` // of a command that did not run on Remit's machine
}

// Summary counts.
type Summary struct {
	TotalDurationMS float64   `json:"total_duration_ms"`
	Counts          Counts    `json:"counts"`
	Resources       Resources `json:"resources"`
	// Commitments are the conditions under which the work counts as done, as they were
	// checked last.
	Commitments []Commitment `json:"commitments,omitempty"`
}

// Commitment is a condition of the run.
type Commitment struct {
	Text string `json:"text"` // as "run go test ./..."
	Met  bool   `json:"met"`
	Step int    `json:"step"` // index of the step that checked it last
}

// Counts are numbers of steps. Failed counts all that began and did not
// complete: failed, timed out, cancelled, interrupted.
type Counts struct {
	Total       int `json:"total"`
	Completed   int `json:"completed"`
	Denied      int `json:"denied"`
	Failed      int `json:"failed"`
	Timeout     int `json:"timeout"`     // of Failed
	Cancelled   int `json:"cancelled"`   // of Failed
	Interrupted int `json:"interrupted"` // of Failed
	Skipped     int `json:"skipped"`
	Refused     int `json:"refused"` // refused attempts of steps while they ran; not refused steps
}

// Resources are the resources that the run's calls used, each once, sorted, as noted
// by the handles. For a completed call without such notes they are taken from its
// arguments.
type Resources struct {
	FilesRead      []string `json:"files_read"`
	FilesWritten   []string `json:"files_written"`
	FilesDeleted   []string `json:"files_deleted"`
	HostsContacted []string `json:"hosts_contacted"`
	CommandsRun    []string `json:"commands_run"`
	TablesRead     []string `json:"tables_read,omitempty"` // of databases, as "main: users(id, name)"
	TablesWritten  []string `json:"tables_written,omitempty"`
}

// Write writes the report in a format: text, json or html. The options are those of
// the text.
func Write(w io.Writer, format string, d Data, o Options) error {
	switch format {
	case "text":
		return Text(w, d, o)
	case "json":
		return JSON(w, d)
	case "html":
		return HTML(w, d)
	}
	return fault.New(fault.Usage, "%q is not a report format", format).WithHint("expected text, json or html")
}

// JSON writes the report as one JSON object, step by step.
func JSON(w io.Writer, d Data) error {
	b := bufio.NewWriter(w)
	rep, err := build(d, &jsonSteps{w: b})
	if err != nil {
		return err
	}
	summary, err := json.MarshalIndent(rep.Summary, "  ", "  ")
	if err != nil {
		return err
	}
	_, _ = fmt.Fprintf(b, "],\n  \"summary\": %s\n}\n", summary) // Flush reports the error
	return b.Flush()
}

// jsonSteps writes the part of a JSON report before the summary.
type jsonSteps struct {
	w   *bufio.Writer
	any bool // a step was written
}

// begin writes what comes before the steps. It has the summary too, which is cut off: that
// of a report without steps is always the same.
func (j *jsonSteps) begin(rep *Report) error {
	head, err := json.MarshalIndent(rep, "", "  ")
	if err != nil {
		return err
	}
	at := bytes.LastIndex(head, []byte("],\n  \"summary\": "))
	_, err = j.w.Write(head[:at])
	return err
}

func (j *jsonSteps) add(s Step) error {
	b, err := json.MarshalIndent(s, "    ", "  ")
	if err != nil {
		return err
	}
	sep := "\n    "
	if j.any {
		sep = ",\n    "
	}
	j.any = true
	_, err = fmt.Fprintf(j.w, "%s%s", sep, b)
	return err
}

func (j *jsonSteps) end(*Report) error {
	if !j.any {
		return nil
	}
	_, err := j.w.WriteString("\n  ")
	return err
}
