package ledger_test

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/fxamacker/cbor/v2"
	"github.com/google/go-cmp/cmp"
	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"
	"pgregory.net/rapid"

	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/record/ledger"
)

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func samples() []ledger.Event {
	id, h := bytes.Repeat([]byte{1}, 16), bytes.Repeat([]byte{2}, 32)
	return []ledger.Event{
		{Kind: ledger.RunStarted, At: 5, ID: id, Mode: ledger.Live, Name: "n", Principal: "user:x", Owner: id, Plan: h, Policies: [][]byte{h}, Workspace: "/w", Total: 3, Commit: h},
		{Kind: ledger.CallIntent, At: 6, Run: 1, Call: 1, Tool: "fs.write", Digest: h, Effect: policy.Allow, Rule: "r", Risk: tool.High, Effects: tool.EffectSet(tool.FSWrite), Timeline: []int64{1, -1}, Step: "s"},
		{Kind: ledger.CallOutcome, At: -7, Run: 1, Call: 1, Status: tool.Failed, Code: fault.ToolFailed},
		{Kind: ledger.CallDone, At: 8, Run: 1, Call: 2, Tool: "fs.read", Status: tool.StatusDenied, Approved: true, Link: 2, Refused: 4},
		{Kind: ledger.RunFinished, At: 9, Run: 1, Status: tool.Failed, Total: 2, Denied: 1, Failed: 1, Refused: 4},
		{Kind: ledger.GrantIssued, At: 10, Grant: id, Parent: h[:16], Principal: "agent:docs", Commit: h},
		{Kind: ledger.GrantStanding, At: 11, Grant: id, Principal: "user:ann", Standing: 2},
		{Kind: ledger.QuestionAsked, At: 12, ID: id, Grant: id, Run: 1, Call: 3, Question: 1},
		{Kind: ledger.QuestionVoted, At: 13, ID: id, Run: 1, Call: 3, Principal: "user:ann", Approved: true, Question: 2},
		{Kind: ledger.Violation, At: 14, Grant: id, Run: 1, Call: 3, Violated: ledger.ViolatedHost, Standing: 1},
		{Kind: ledger.Violation, At: 14, Violated: ledger.ViolatedGrant},
		{Kind: ledger.QuestionClosed, At: 15, ID: id, Question: 5},
		{Kind: ledger.AgentSaved, At: 16, Subject: id, Number: 1, Name: "docs", Principal: "user:ann", Commit: h},
		{Kind: ledger.SessionSaved, At: 17, Subject: id, Number: 2, Agent: h[:16], Parent: h[:16], Principal: "user:ann", Gone: true, Commit: h},
		{Kind: ledger.MessageAdded, At: 18, Run: 1, Subject: id, Number: 7, Commit: h},
		{Kind: ledger.FileSaved, At: 19, Run: 1, Call: 2, Subject: id, Number: 3, Gone: true, Commit: h},
		{Kind: ledger.RunStarted, At: 20, ID: h[:16], Mode: ledger.Replay, Subject: id},
		{Kind: ledger.Operated, At: 21, Name: "secret.set", Principal: "user:ann", Commit: h},
		{Kind: ledger.Operated, At: 22, Name: "mcp.add", Principal: "user:ann", Code: fault.StoreFull, Commit: h},
		{Kind: ledger.RunStarted, At: 23, ID: h[:16], Mode: ledger.Live, Owner: ledger.NoOwner[:], Client: "claude"},
		{Kind: ledger.CallIntent, At: 24, Run: 20, Call: 1, Tool: "fs.read", Effect: policy.Allow, Client: "claude"},
		{Kind: ledger.CallOutcome, At: 25, Run: 20, Call: 1, Status: tool.Completed, Client: "claude"},
	}
}

var update = flag.Bool("update", false, "write the golden files anew")

// What is recorded once must be read for ever: these bytes never change, new ones
// come after them.
func TestTheEncodingOfEventsStays(t *testing.T) {
	var b strings.Builder
	for _, e := range samples() {
		fmt.Fprintf(&b, "%s %x\n", strings.ReplaceAll(e.Kind.String(), " ", "-"), must(ledger.Encode(&e)))
	}
	for _, p := range []string{ledger.PartArgs, ledger.PartQuestion, ledger.PartDoc, ledger.PartBounds, ledger.PartContent, ledger.PartPhase, ledger.PartFrozen, ledger.PartTool} {
		fmt.Fprintf(&b, "part-%s %x\n", p, must(ledger.EncodeParts(map[string]ledger.Part{p: {Inline: []byte("x")}})))
	}
	const file = "testdata/events.golden"
	if *update {
		if err := os.WriteFile(file, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if d := cmp.Diff(string(must(os.ReadFile(file))), b.String()); d != "" {
		t.Errorf("(-recorded +written now):\n%s", d)
	}
}

func TestDecodeGivesBackWhatWasEncoded(t *testing.T) {
	for _, e := range samples() {
		got, err := ledger.Decode(must(ledger.Encode(&e)))
		if d := cmp.Diff(e, got); err != nil || d != "" {
			t.Errorf("%s: %v (-want +got):\n%s", e.Kind, err, d)
		}
	}
}

func TestDecodeRefusesOtherSpellings(t *testing.T) {
	good := must(ledger.Encode(&samples()[2])) // {1: 3, 2: -7, 3: 1, 4: 1, 7: 3, 8: 2003}
	if good[0] != 0xa6 {
		t.Fatalf("the sample begins with %x", good[0])
	}
	for name, b := range map[string][]byte{
		"nothing":             {},
		"an empty map":        {0xa0},
		"a byte more":         append(bytes.Clone(good), 0),
		"a byte less":         good[:len(good)-1],
		"a longer integer":    append([]byte{0xa6, 0x18, 0x01}, good[2:]...),
		"an unknown field":    append(append([]byte{0xa7}, good[1:]...), 0x18, 0x63, 0x01),
		"a field twice":       append(append([]byte{0xa7}, good[1:]...), 0x08, 0x01),
		"a zero field":        append(append([]byte{0xa7}, good[1:]...), 0x09, 0x00),
		"another order":       append([]byte{0xa6, 0x02, 0x26, 0x01, 0x03}, good[5:]...),
		"indefinite length":   append(append([]byte{0xbf}, good[1:]...), 0xff),
		"a tag":               append([]byte{0xd9, 0xd9, 0xf7}, good...),
		"an array":            {0x83, 1, 2, 3},
		"a text as a field":   append(append([]byte{0xa7}, good[1:]...), 0x61, 'x', 0x01),
		"a float for integer": append([]byte{0xa6, 0x01, 0xf9, 0x42, 0x00}, good[3:]...),
	} {
		if e, err := ledger.Decode(b); !errors.Is(err, fault.StoreCorrupt) {
			t.Errorf("%s: %+v, %v; want it refused", name, e, err)
		}
	}
}

func TestEncodeRefusesWhatMakesNoSense(t *testing.T) {
	for name, change := range map[string]func(e []ledger.Event) *ledger.Event{
		"no kind":                                  func(e []ledger.Event) *ledger.Event { e[0].Kind = 0; return &e[0] },
		"a run without an ID":                      func(e []ledger.Event) *ledger.Event { e[0].ID = nil; return &e[0] },
		"a run in a run":                           func(e []ledger.Event) *ledger.Event { e[0].Run = 3; return &e[0] },
		"a run with no mode":                       func(e []ledger.Event) *ledger.Event { e[0].Mode = 0; return &e[0] },
		"a call without a run":                     func(e []ledger.Event) *ledger.Event { e[1].Run = 0; return &e[1] },
		"a call without number":                    func(e []ledger.Event) *ledger.Event { e[1].Call = 0; return &e[1] },
		"a call without a tool":                    func(e []ledger.Event) *ledger.Event { e[1].Tool = ""; return &e[1] },
		"a refused call that a client carries out": func(e []ledger.Event) *ledger.Event { e[3].Client = "claude"; return &e[3] },
		"an intent with refusals":                  func(e []ledger.Event) *ledger.Event { e[1].Refused = 1; return &e[1] },
		"an intent that ended":                     func(e []ledger.Event) *ledger.Event { e[1].Status = tool.Failed; return &e[1] },
		"an end without status":                    func(e []ledger.Event) *ledger.Event { e[2].Status = 0; return &e[2] },
		"a status too far":                         func(e []ledger.Event) *ledger.Event { e[2].Status = 99; return &e[2] },
		"an effect too far":                        func(e []ledger.Event) *ledger.Event { e[3].Effect = 9; return &e[3] },
		"a short digest":                           func(e []ledger.Event) *ledger.Event { e[1].Digest = []byte{1}; return &e[1] },
		"a change of nothing":                      func(e []ledger.Event) *ledger.Event { e[2].Change = ledger.ChangesHeld; return &e[2] },
		"a changeset of none": func(e []ledger.Event) *ledger.Event {
			e[1] = ledger.Event{Kind: ledger.Changeset, At: 1, Run: 1}
			return &e[1]
		},
		"a change too far": func(e []ledger.Event) *ledger.Event {
			e[1] = ledger.Event{Kind: ledger.Changeset, At: 1, Run: 1, Change: 99}
			return &e[1]
		},
		"a grant without an ID":       func(e []ledger.Event) *ledger.Event { e[5].Grant = nil; return &e[5] },
		"a grant that is its parent":  func(e []ledger.Event) *ledger.Event { e[5].Parent = e[5].Grant; return &e[5] },
		"a grant with a standing":     func(e []ledger.Event) *ledger.Event { e[5].Standing = 1; return &e[5] },
		"a call of no run":            func(e []ledger.Event) *ledger.Event { e[5].Call = 1; return &e[5] },
		"a call with a grant":         func(e []ledger.Event) *ledger.Event { e[1].Grant = e[5].Grant; return &e[1] },
		"a standing too far":          func(e []ledger.Event) *ledger.Event { e[6].Standing = 3; return &e[6] },
		"a standing with a parent":    func(e []ledger.Event) *ledger.Event { e[6].Parent = e[5].Parent; return &e[6] },
		"a question without an ID":    func(e []ledger.Event) *ledger.Event { e[7].ID = nil; return &e[7] },
		"a question that was decided": func(e []ledger.Event) *ledger.Event { e[7].Question = 2; return &e[7] },
		"a vote to no state":          func(e []ledger.Event) *ledger.Event { e[8].Question = 0; return &e[8] },
		"a vote to a state too far":   func(e []ledger.Event) *ledger.Event { e[8].Question = 6; return &e[8] },
		"a violation of nothing":      func(e []ledger.Event) *ledger.Event { e[9].Violated = 0; return &e[9] },
		"a violation too far":         func(e []ledger.Event) *ledger.Event { e[9].Violated = 12; return &e[9] },
		"a violation that ends":       func(e []ledger.Event) *ledger.Event { e[9].Status = tool.Failed; return &e[9] },
		"a call that is violated":     func(e []ledger.Event) *ledger.Event { e[3].Violated = 1; return &e[3] },
		"a kind too far":              func(e []ledger.Event) *ledger.Event { e[11].Kind = 17; return &e[11] },
		"an agent without an ID":      func(e []ledger.Event) *ledger.Event { e[12].Subject = nil; return &e[12] },
		"an agent without a name":     func(e []ledger.Event) *ledger.Event { e[12].Name = ""; return &e[12] },
		"an agent of an agent":        func(e []ledger.Event) *ledger.Event { e[12].Agent = e[12].Subject; return &e[12] },
		"an agent with a parent":      func(e []ledger.Event) *ledger.Event { e[12].Parent = e[13].Parent; return &e[12] },
		"a version 0":                 func(e []ledger.Event) *ledger.Event { e[13].Number = 0; return &e[13] },
		"a session in itself":         func(e []ledger.Event) *ledger.Event { e[13].Parent = e[13].Subject; return &e[13] },
		"a short agent":               func(e []ledger.Event) *ledger.Event { e[13].Agent = []byte{1}; return &e[13] },
		"a session with a status":     func(e []ledger.Event) *ledger.Event { e[13].Status = tool.Failed; return &e[13] },
		"a message that deletes":      func(e []ledger.Event) *ledger.Event { e[14].Gone = true; return &e[14] },
		"a message of a call of none": func(e []ledger.Event) *ledger.Event { e[14].Run, e[14].Call = 0, 1; return &e[14] },
		"a file with an ID":           func(e []ledger.Event) *ledger.Event { e[15].ID = e[15].Subject; return &e[15] },
		"a call with a subject":       func(e []ledger.Event) *ledger.Event { e[1].Subject = e[12].Subject; return &e[1] },
		"a call with a number":        func(e []ledger.Event) *ledger.Event { e[1].Number = 1; return &e[1] },
		"a run that is gone":          func(e []ledger.Event) *ledger.Event { e[16].Gone = true; return &e[16] },
		"text that is not text":       func(e []ledger.Event) *ledger.Event { e[1].Rule = "\xff"; return &e[1] },
	} {
		if b, err := ledger.Encode(change(samples())); err == nil {
			t.Errorf("%s was encoded as %x", name, b)
		}
	}
}

func TestPayloadsComeBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		names := rapid.SampledFrom([]string{ledger.PartArgs, ledger.PartOutput, ledger.PartEnv, "other", "x"})
		want := map[string]ledger.Part{}
		for _, n := range rapid.SliceOfN(names, 0, 5).Draw(t, "names") {
			if rapid.Bool().Draw(t, "blob") {
				want[n] = ledger.Part{Blob: &ledger.BlobRef{Address: sha256.Sum256([]byte(n)), Size: rapid.Int64Range(0, 1<<50).Draw(t, "size")}}
			} else {
				want[n] = ledger.Part{Inline: append([]byte{}, rapid.SliceOf(rapid.Byte()).Draw(t, "bytes")...)}
			}
		}
		b := must(ledger.EncodeParts(want))
		got, err := ledger.DecodeParts(b)
		if d := cmp.Diff(want, got); err != nil || d != "" {
			t.Fatalf("%v (-want +got):\n%s", err, d)
		}
	})
}

// What EncodeParts writes by itself is what a CBOR library writes in its
// deterministic mode.
func TestPayloadsAreDeterministicCBOR(t *testing.T) {
	mode := must(cbor.CoreDetEncOptions().EncMode())
	rapid.Check(t, func(t *rapid.T) {
		parts := map[string]ledger.Part{}
		for range rapid.IntRange(0, 20).Draw(t, "parts") {
			name := rapid.OneOf(rapid.SampledFrom([]string{ledger.PartArgs, ledger.PartOutput, ledger.PartEnv}), rapid.StringN(1, 20, 64)).Draw(t, "name")
			if rapid.Bool().Draw(t, "blob") {
				parts[name] = ledger.Part{Blob: &ledger.BlobRef{Size: rapid.Int64Range(0, 1<<62).Draw(t, "size")}}
			} else {
				parts[name] = ledger.Part{Inline: make([]byte, rapid.SampledFrom([]int{0, 1, 23, 24, 255, 256, 65535, 65536}).Draw(t, "length"))}
			}
		}
		got := must(ledger.EncodeParts(parts))
		var v map[any]any
		if err := cbor.Unmarshal(got, &v); err != nil {
			t.Fatal(err)
		}
		if want := must(mode.Marshal(v)); !bytes.Equal(got, want) {
			t.Fatalf("got  %x\nwant %x", got, want)
		}
	})
}

// Events of runs and calls, of which there are most, are read without the library, and
// every field is read as the library reads it.
func TestEventsOfCallsAreReadQuickly(t *testing.T) {
	list := append(samples(), ledger.Event{
		Kind: ledger.CallDone, At: 1 << 40, Run: 1 << 33, Call: 1 << 17, Tool: "a.b", Digest: make([]byte, 32), Status: tool.Failed, Code: 9999, Effect: policy.Ask,
		Rule: strings.Repeat("r", 300), Link: 255, Risk: tool.High, Effects: 1<<32 - 1, Timeline: []int64{0, -1, 255, 256, 1<<32 - 1, 1 << 32, -1 << 40}, Step: "s", Commit: make([]byte, 32),
		Approved: true, Line: 24, Refused: 65536, Usage: []int64{0, 23, 24},
	}, ledger.Event{
		Kind: ledger.RunStarted, ID: make([]byte, 16), Mode: ledger.Replay, ReplayOf: make([]byte, 16), Policies: [][]byte{make([]byte, 32), make([]byte, 32)}, Total: 100000, Client: "c",
	}, ledger.Event{Kind: ledger.Changeset, Run: 1, Change: ledger.ChangesReview, Principal: "user:ann"})
	for _, e := range list {
		b := must(ledger.Encode(&e))
		got, ok := ledger.CanonicalEvent(b)
		if ofOthers := len(e.Grant)+len(e.Subject) > 0 || e.Kind.OfAuthority() || e.Kind.OfAgents(); !ok && !ofOthers {
			t.Errorf("%+v is read the slow way", e)
		}
		if d := cmp.Diff(must(ledger.DecodeAny(b)), got); ok && d != "" {
			t.Errorf("%+v (-library +quick):\n%s", e, d)
		}
	}
}

func FuzzDecode(f *testing.F) {
	for _, e := range samples() {
		f.Add(must(ledger.Encode(&e)))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		e, err := ledger.Decode(b)
		if quick, ok := ledger.CanonicalEvent(b); ok && quick.Check() == nil {
			if slow, err := ledger.DecodeAny(b); err != nil || !cmp.Equal(slow, quick) {
				t.Fatalf("%x was read as %+v, by the library as %+v (%v)", b, quick, slow, err)
			}
		}
		if err != nil {
			return
		}
		if again, err := ledger.Encode(&e); err != nil || !bytes.Equal(again, b) {
			t.Fatalf("%x was read as %+v, which is written as %x (%v): one event, two spellings", b, e, again, err)
		}
	})
}

func FuzzDecodeParts(f *testing.F) {
	f.Add(must(ledger.EncodeParts(map[string]ledger.Part{"args": {Inline: []byte("{}")}, "x": {Blob: &ledger.BlobRef{Size: 5000}}})))
	f.Add([]byte{0xa1, 0x64, 'a', 'r', 'g', 's', 0x40})
	for _, n := range []int{0, 1, 23, 24, 255, 256, 65535, 65536} {
		f.Add(must(ledger.EncodeParts(map[string]ledger.Part{ledger.PartDoc: {Inline: make([]byte, n)}})))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		p, err := ledger.DecodeParts(b)
		if err != nil {
			return
		}
		if again, err := ledger.EncodeParts(p); err != nil || !bytes.Equal(again, b) {
			t.Fatalf("%x was read as %+v, which is written as %x (%v)", b, p, again, err)
		}
		p["no such part"] = ledger.Part{}
		for name, want := range p {
			if got, err := ledger.DecodePart(b, name); err != nil || !bytes.Equal(got.Inline, want.Inline) || (got.Blob == nil) != (want.Blob == nil) || got.Blob != nil && *got.Blob != *want.Blob {
				t.Fatalf("part %q of %x was read as %+v alone (%v), as %+v with the others", name, b, got, err, want)
			}
		}
	})
}

// hashes is a whole tree in memory, as tlog stores it.
type hashes []tlog.Hash

func (h hashes) ReadHashes(idx []int64) ([]tlog.Hash, error) {
	out := make([]tlog.Hash, len(idx))
	for i, x := range idx {
		out[i] = h[x]
	}
	return out, nil
}

func TestTheFrontierIsTlogsTree(t *testing.T) {
	var f ledger.Frontier
	var all hashes
	for n := range int64(600) {
		if got, want := f.Root(), must(tlog.TreeHash(n, all)); got != want {
			t.Fatalf("size %d: root %s, tlog says %s", n, got, want)
		}
		again := must(ledger.ParseFrontier(f.Size, f.Bytes()))
		if again.Root() != f.Root() {
			t.Fatalf("size %d: the frontier does not come back", n)
		}
		leaf := tlog.RecordHash([]byte{byte(n), byte(n >> 8)})
		stored := must(tlog.StoredHashesForRecordHash(n, leaf, all))
		all = append(all, stored...)
		level := 0
		f.Append(leaf, func(nd ledger.Node) {
			level++
			if nd.Level != level || all[tlog.StoredHashIndex(nd.Level, nd.N)] != nd.Hash {
				t.Fatalf("size %d: node %+v differs from tlog's", n, nd)
			}
		})
		if level != len(stored)-1 {
			t.Fatalf("size %d: %d nodes, tlog stores %d", n, level, len(stored)-1)
		}
	}
}

func TestCheckProof(t *testing.T) {
	skey, vkey, err := note.GenerateKey(rand.Reader, "remit.local/x")
	if err != nil {
		t.Fatal(err)
	}
	signer := must(note.NewSigner(skey))
	var all hashes
	var bodies [][]byte
	for n, e := range samples() {
		bodies = append(bodies, must(ledger.Encode(&e)))
		all = append(all, must(tlog.StoredHashes(int64(n), bodies[n], all))...)
	}
	cp := ledger.Checkpoint{Origin: "remit.local/x", Size: 5, Root: must(tlog.TreeHash(5, all))}
	p := ledger.Proof{Format: ledger.ProofFormat, Ledger: cp.Origin, Checkpoint: string(must(note.Sign(&note.Note{Text: cp.String()}, signer)))}
	for _, i := range []int64{0, 2, 4} {
		p.Events = append(p.Events, ledger.ProofEvent{Seq: ledger.Seq(i + 1), Body: bodies[i], Proof: must(tlog.ProveRecord(5, i, all))})
	}
	good := string(must(json.Marshal(p)))
	if got, events, err := ledger.CheckProof([]byte(good), vkey); err != nil || got != cp || len(events) != 3 || events[1].Status != tool.Failed {
		t.Fatalf("a sound proof: %+v, %d events, %v", got, len(events), err)
	}
	_, other, _ := note.GenerateKey(rand.Reader, "remit.local/x")
	if _, _, err := ledger.CheckProof([]byte(good), other); err == nil {
		t.Error("a proof passed under another key")
	}
	for name, change := range map[string]func(*ledger.Proof){
		"another body":   func(p *ledger.Proof) { p.Events[1].Body = bodies[3] },
		"another place":  func(p *ledger.Proof) { p.Events[1].Seq = 2 },
		"another path":   func(p *ledger.Proof) { p.Events[1].Proof = p.Events[0].Proof },
		"no path":        func(p *ledger.Proof) { p.Events[1].Proof = nil },
		"an event twice": func(p *ledger.Proof) { p.Events[1] = p.Events[0] },
		"no events":      func(p *ledger.Proof) { p.Events = nil },
		"another size":   func(p *ledger.Proof) { p.Checkpoint = strings.Replace(p.Checkpoint, "\n5\n", "\n6\n", 1) },
		"another ledger": func(p *ledger.Proof) { p.Ledger = "remit.local/y" },
		"another format": func(p *ledger.Proof) { p.Format = "v2" },
	} {
		q := p
		q.Events = append([]ledger.ProofEvent(nil), p.Events...)
		change(&q)
		if _, _, err := ledger.CheckProof(must(json.Marshal(q)), vkey); !errors.Is(err, fault.VerifyFailed) {
			t.Errorf("%s: %v, want %v", name, err, fault.VerifyFailed)
		}
	}
}

func TestChangesetEventsFollowTheEnd(t *testing.T) {
	p := ledger.NewProgress(1)
	add := func(e ledger.Event) error { e.At, e.Run = 1, 1; return p.Add(2, &e) }
	held := ledger.Event{Kind: ledger.Changeset, Change: ledger.ChangesHeld}
	if err := errors.Join(add(held), add(ledger.Event{Kind: ledger.RunFinished, Status: tool.Completed})); err != nil {
		t.Fatal(err)
	}
	if err := add(ledger.Event{Kind: ledger.Changeset, Change: ledger.ChangesApplied}); err != nil {
		t.Errorf("a changeset was applied after its run: %v", err)
	}
	if err := add(ledger.Event{Kind: ledger.CallDone, Call: 1, Tool: "time.now", Status: tool.Completed}); !errors.Is(err, fault.StoreCorrupt) {
		t.Errorf("a call after the end: %v", err)
	}
	other := held
	other.At, other.Run = 1, 7
	if err := p.Add(3, &other); !errors.Is(err, fault.StoreCorrupt) {
		t.Errorf("another run's changeset: %v", err)
	}
	if p.Total != 0 || p.Status != tool.Completed {
		t.Errorf("it counts %+v", p)
	}
}

func TestEventsOfAgentsFollowTheEnd(t *testing.T) {
	p := ledger.NewProgress(1)
	for i, e := range []ledger.Event{
		{Kind: ledger.MessageAdded, Run: 1}, {Kind: ledger.RunFinished, Run: 1, Status: tool.Completed}, {Kind: ledger.MessageAdded, Run: 1}, {Kind: ledger.FileSaved, Run: 1, Call: 1},
	} {
		if err := p.Add(ledger.Seq(i+2), &e); err != nil {
			t.Errorf("%s after the run's start, event %d: %v", e.Kind, i+2, err)
		}
	}
	if p.Total != 0 || p.Status != tool.Completed {
		t.Errorf("it counts %+v", p)
	}
	if err := p.Add(9, &ledger.Event{Kind: ledger.MessageAdded, Run: 2}); !errors.Is(err, fault.StoreCorrupt) {
		t.Errorf("another run's message: %v", err)
	}
}

func TestViolationsHaveNames(t *testing.T) {
	for v := ledger.ViolatedPath; v <= ledger.ViolatedMode; v++ {
		if got, ok := ledger.ParseViolated(v.String()); !ok || got != v {
			t.Errorf("%d is named %q, which is read as %d, %v", v, v, got, ok)
		}
	}
	for _, name := range []string{"", "unknown", "Path"} {
		if v, ok := ledger.ParseViolated(name); ok {
			t.Errorf("%q is read as %d", name, v)
		}
	}
}
