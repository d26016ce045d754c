package ledger

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"strconv"
	"time"

	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/base/tool"
)

// The JSON forms of the parts of a payload.

// Refusal is one rule that kept a call from being allowed outright.
type Refusal struct {
	Effect string `json:"effect"` // deny or ask
	Rule   string `json:"rule"`
	Policy string `json:"policy,omitempty"`
	File   string `json:"file,omitempty"`
	Line   int    `json:"line,omitempty"`
	Action string `json:"action,omitempty"`
	Reason string `json:"reason"`
}

// PolicySource is a policy of a run's chain as it was read.
type PolicySource struct {
	Name   string `json:"name"`
	File   string `json:"file"`
	Source string `json:"source"`
	// Holders are whose roles of the policy bound the run, in this order; nil: the
	// run's principal's.
	Holders []string `json:"holders,omitempty"`
}

// CallBounds are the limits of a call besides its run's policies.
type CallBounds struct {
	Policies []PolicySource `json:"policies,omitempty"`
	Own      string         `json:"own,omitempty"`      // the tool's own folder, where the policies hold as in the workspace
	Programs string         `json:"programs,omitempty"` // the folder of the tool's own programs, last of the trusted PATH
}

// PartTool is a JSON ToolUsed, of calls of tools that a source brought.
const PartTool = "tool"

// ToolUsed describes a tool that is not built in, as it was when a call was decided.
// With it and the event's fields, a replay does not need the tool's source.
type ToolUsed struct {
	Source  string        `json:"source"` // as the catalog names it: "mcp:github"
	Kind    string        `json:"kind"`   // as the tool's specification does: "mcp", "mcp-remote", "extension", ...
	Effects []tool.Effect `json:"side_effects"`
	Actions []tool.Action `json:"actions,omitempty"` // that the arguments came to, before any fact was looked up
}

// PartHeld is a JSON HeldCall: of a call that waits for review, of the call that carries one
// out, and of the Changeset event that decides on such calls (a HeldDecision).
const PartHeld = "held"

// HeldCall says of a call that it waits for review, or which held call it carries out.
type HeldCall struct {
	Rule    string   `json:"rule,omitempty"`    // that lets it wait
	Touches []string `json:"touches,omitempty"` // its actions, for people
	Run     string   `json:"run,omitempty"`     // the run of the held call that this call carries out; "": it waits itself
	Number  int      `json:"number,omitempty"`  // that call's index
}

// HeldDecision is a decision on the held calls of a run.
type HeldDecision struct {
	Run   string `json:"run"`             // the run that carries them out; it may never have begun
	Again []int  `json:"again,omitempty"` // calls to repeat, although an earlier attempt may have had its effect
	Skip  []int  `json:"skip,omitempty"`  // calls to leave out for good
}

// Touched is the side effects that happened, as the handles saw them.
type Touched struct {
	Effects []tool.Happened `json:"effects"`
	More    int             `json:"more,omitempty"` // how many further ones were not listed
}

// Attempts are the refused attempts of a call's confined processes.
type Attempts struct {
	Refused []tool.Refused `json:"refused"`
	More    int            `json:"more,omitempty"` // how many further attempts were not listed
}

// Count is how many attempts there were.
func (a Attempts) Count() int {
	n := a.More
	for _, r := range a.Refused {
		n += r.Count
	}
	return n
}

// Facts are the input of a decision's second step: the call's actions with their
// facts.
type Facts struct {
	Actions []tool.Action `json:"actions"`
}

// GrantTerms is the part of a GrantIssued event with the grant's terms besides its
// fields; the policies are in PartPolicy.
type GrantTerms struct {
	NotBefore time.Time       `json:"not_before,omitzero"`
	Expires   time.Time       `json:"expires,omitzero"`    // zero: never
	Budgets   json.RawMessage `json:"budgets,omitempty"`   // as package grant encodes them
	Delegable json.RawMessage `json:"delegable,omitempty"` // the permitted delegation; nil: none
	Note      string          `json:"note,omitempty"`      // for people
	Device    string          `json:"device,omitempty"`    // the person's device that it was made for; "": none
	Person    *Person         `json:"person,omitempty"`    // the holder of a root grant, if an identity provider named it
}

// Person is a user identified by an identity provider. All texts are its word.
type Person struct {
	Issuer  string         `json:"issuer"`         // its URL, as in its tokens
	Subject string         `json:"subject"`        // its own, unchanging name of the person
	Name    string         `json:"name,omitempty"` // that people know the person by; it may change, and decides nothing
	Role    string         `json:"role"`           // that the claims gave when the grant was issued
	Claims  map[string]any `json:"claims"`         // that roles depend on; null: the token did not have the claim
	Said    time.Time      `json:"said_at"`        // when the token was issued that said so
}

// ID identifies a person: two people have the same one only if issuer and subject are the same.
func (p *Person) ID() string {
	sum := sha256.Sum256([]byte(strconv.Itoa(len(p.Issuer)) + " " + p.Issuer + p.Subject))
	return "person:" + hex.EncodeToString(sum[:])
}

// FileState is the part of a FileSaved event with the file's state besides its fields
// and content.
type FileState struct {
	Path    string `json:"path"`
	Folder  bool   `json:"folder,omitempty"`
	Size    int64  `json:"size,omitempty"`
	SHA256  []byte `json:"sha256,omitempty"` // of the content
	Created int64  `json:"created"`          // of the path, in microseconds since 1970 UTC
	// The event of the version before, and the SHA-256 of its Merkle leaf; 0: there
	// is none.
	Before     Seq    `json:"before,omitempty"`
	BeforeLeaf []byte `json:"before_leaf,omitempty"`
}

// OperatorAction is the part of an Operated event besides its fields. It never
// contains a secret's value.
type OperatorAction struct {
	Target string `json:"target"`           // the changed object: a name, an ID or a path
	Digest string `json:"digest,omitempty"` // SHA-256 of the new state, as in its file
	Was    string `json:"was,omitempty"`    // the same of the state before
	Reason string `json:"reason,omitempty"` // given by the operator
	Events string `json:"events,omitempty"` // with EraseAction: the events whose payloads were erased, as FormatSeqs writes them
}

// CallFlow is the labels that a call was decided with.
type CallFlow struct {
	Context []string `json:"context"` // the labels of the context, sorted
	// Around are the labels that were recorded for files that the call does not name, and
	// that its processes can read; sorted.
	Around []string `json:"around,omitempty"`
	// Typed are those recorded for the files that typed commands name, by path.
	Typed map[string][]string `json:"typed,omitempty"`
	// Reached are labels that files have which the call could not be kept from.
	Reached []string `json:"reached,omitempty"`
	// Referred are the labels of the outputs that arguments refer to, sorted. The context does
	// not get them.
	Referred []string `json:"referred,omitempty"`
	// Held: the run holds its writes, so it has the labels of all that its calls change.
	Held bool `json:"held,omitempty"`
	// Read and Added order the calls of a context: when a call read the labels, and when it
	// added those of its result; 0: it did not begin.
	Read  uint64 `json:"read"`
	Added uint64 `json:"added,omitempty"`
	// Where flows ask about values: when the call's were looked up, those that a flow asked
	// about, and when a person approved them for the session; 0: never.
	Judged   uint64           `json:"judged,omitempty"`
	Life     string           `json:"life,omitempty"` // names the order: that of one context in one process
	Steered  []policy.Steered `json:"steered,omitempty"`
	Endorsed uint64           `json:"endorsed,omitempty"`
	// Trusted: the result is trusted data. Repeats: untrusted data may have chosen the
	// arguments, which the result may repeat.
	Trusted bool `json:"trusted,omitempty"`
	Repeats bool `json:"repeats,omitempty"`
}

// Reference is an argument that was given as a reference to a stored output. The recorded
// arguments have the value in its place.
type Reference struct {
	Argument string   `json:"argument"` // JSON pointer to the argument
	Output   string   `json:"output"`   // the ID of the output
	At       string   `json:"at,omitempty"`
	SHA256   string   `json:"sha256"` // of the value as canonical JSON
	Bytes    int      `json:"bytes"`
	Run      string   `json:"run"`  // of the call whose output it is: the beginning of its ID
	Call     int      `json:"call"` // the index of that call
	Tool     string   `json:"tool"` // of that call
	Labels   []string `json:"labels,omitempty"`
	// Withheld: the context of the caller does not have the output, and so it does not get
	// what the call makes of it.
	Withheld bool `json:"withheld,omitempty"`
}
