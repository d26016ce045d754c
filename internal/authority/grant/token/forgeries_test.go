package token_test

import (
	"bytes"
	"crypto/ed25519"
	"encoding/base64"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/remitrun/remit/internal/authority/grant/token"
	"github.com/remitrun/remit/internal/base/fault"
)

type forgery struct {
	name string
	make func(t testing.TB) string
	want fault.Code
}

// spelled lists texts that are not tokens of this version, or are spelled
// differently.
var spelled = []forgery{
	{"nothing", func(testing.TB) string { return "" }, fault.GrantInvalid},
	{"the prefix alone", func(testing.TB) string { return token.Prefix }, fault.GrantInvalid},
	{"no prefix", func(t testing.TB) string { return strings.TrimPrefix(three(t), token.Prefix) }, fault.GrantInvalid},
	{"another prefix", func(t testing.TB) string { return "biscuit:" + strings.TrimPrefix(three(t), token.Prefix) }, fault.GrantInvalid},
	{"prefix in capitals", func(t testing.TB) string { return strings.Replace(three(t), "remit", "REMIT", 1) }, fault.GrantInvalid},
	{"prefix of a proof", func(t testing.TB) string { return strings.Replace(three(t), "remit1_", "remitp1_", 1) }, fault.GrantInvalid},
	{"a later version", func(t testing.TB) string { return strings.Replace(three(t), "remit1_", "remit2_", 1) }, fault.GrantVersion},
	{"a much later version", func(t testing.TB) string { return strings.Replace(three(t), "remit1_", "remit17_", 1) }, fault.GrantVersion},
	{"version with a zero in front", func(t testing.TB) string { return strings.Replace(three(t), "remit1_", "remit01_", 1) }, fault.GrantInvalid},
	{"version zero", func(t testing.TB) string { return strings.Replace(three(t), "remit1_", "remit0_", 1) }, fault.GrantInvalid},
	{"space in front", func(t testing.TB) string { return " " + three(t) }, fault.GrantInvalid},
	{"line's end behind", func(t testing.TB) string { return three(t) + "\n" }, fault.GrantInvalid},
	{"line's end within", func(t testing.TB) string { s := three(t); return s[:40] + "\r\n" + s[40:] }, fault.GrantInvalid},
	{"padding", func(t testing.TB) string { return three(t) + "=" }, fault.GrantInvalid},
	{"another alphabet", func(t testing.TB) string {
		return token.Prefix + base64.RawStdEncoding.EncodeToString(append(raw(t, three(t)), 0xff, 0xff, 0xff))
	}, fault.GrantInvalid},
	{"bits left over", bitsLeftOver, fault.GrantInvalid},
	{"quotes", func(t testing.TB) string { return `"` + three(t) + `"` }, fault.GrantInvalid},
	{"one character short", func(t testing.TB) string { s := three(t); return s[:len(s)-1] }, fault.GrantInvalid},
	{"half", func(t testing.TB) string { s := three(t); return s[:len(s)/2] }, fault.GrantInvalid},
	{"a byte behind", func(t testing.TB) string { return text(append(raw(t, three(t)), 0)) }, fault.GrantInvalid},
	{"twice", func(t testing.TB) string { b := raw(t, three(t)); return text(append(b, b...)) }, fault.GrantInvalid},
	{"larger than any", func(t testing.TB) string { return three(t) + strings.Repeat("A", token.MaxSize) }, fault.GrantTooLarge},
}

func bitsLeftOver(t testing.TB) string {
	s := three(t)
	for len(raw(t, s))%3 == 0 { // no bits are left over: another length
		s = add(t, s, token.Block{Audience: strings.Repeat("a", len(raw(t, s))%7+1)})
	}
	const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
	return s[:len(s)-1] + string(alphabet[strings.IndexByte(alphabet, s[len(s)-1])|1])
}

// encodedWrong lists tokens with a wrong encoding.
var encodedWrong = []forgery{
	{"not an array", func(t testing.TB) string { return text(encode(t, map[int]int{1: 1})) }, fault.GrantInvalid},
	{"an empty array", func(t testing.TB) string { return text([]byte{0x80}) }, fault.GrantInvalid},
	{"a later version inside", func(t testing.TB) string { return changed(t, func(p *parts) { p.Version = 2 }) }, fault.GrantVersion},
	{"no version", func(t testing.TB) string { return changed(t, func(p *parts) { p.Version = 0 }) }, fault.GrantInvalid},
	{"a tag around it", func(t testing.TB) string { return text(append([]byte{0xd9, 0xd9, 0xf7}, raw(t, three(t))...)) }, fault.GrantInvalid},
	{"array without a length", func(t testing.TB) string {
		b := raw(t, three(t))
		return text(append(append([]byte{0x9f}, b[1:]...), 0xff))
	}, fault.GrantInvalid},
	{"number longer than it need be", func(t testing.TB) string {
		b := raw(t, three(t))
		return text(slices.Concat(b[:1], []byte{0x18, 0x01}, b[2:]))
	}, fault.GrantInvalid},
	{"null for no handover", func(t testing.TB) string {
		return text(bytes.Replace(raw(t, three(t)), []byte{0x40, 0x58, 0x40}, []byte{0xf6, 0x58, 0x40}, 1))
	}, fault.GrantInvalid},
	{"an element more", func(t testing.TB) string {
		p := apart(t, three(t))
		return text(encode(t, []any{1, p.Blocks, p.Proof, 1}))
	}, fault.GrantInvalid},
	{"an element less", func(t testing.TB) string { return text(encode(t, []any{1, apart(t, three(t)).Blocks})) }, fault.GrantInvalid},
	{"text in place of bytes", func(t testing.TB) string {
		p := apart(t, three(t))
		b := p.Blocks[0]
		return text(encode(t, []any{1, []any{[]any{"payload", b.Next, b.Handover, b.Sig}}, p.Proof}))
	}, fault.GrantInvalid},
	{"no blocks", func(t testing.TB) string { return changed(t, func(p *parts) { p.Blocks = nil }) }, fault.GrantInvalid},
	{"more blocks than any may have", func(t testing.TB) string { return appends(t, slices.Repeat([]said{{}}, token.MaxBlocks)...) }, fault.GrantInvalid},
	{"an end of another kind", func(t testing.TB) string { return changed(t, func(p *parts) { p.Proof.Kind = 2 }) }, fault.GrantInvalid},
	{"an end cut short", func(t testing.TB) string { return changed(t, func(p *parts) { p.Proof.Value = p.Proof.Value[1:] }) }, fault.GrantInvalid},
	{"no end", func(t testing.TB) string { return changed(t, func(p *parts) { p.Proof.Value = nil }) }, fault.GrantInvalid},
	{"a signature cut short", func(t testing.TB) string { return changed(t, func(p *parts) { p.Blocks[1].Sig = p.Blocks[1].Sig[1:] }) }, fault.GrantInvalid},
	{"an empty payload", func(t testing.TB) string { return changed(t, func(p *parts) { p.Blocks[2].Payload = nil }) }, fault.GrantInvalid},
	{"a key twice in a payload", func(t testing.TB) string {
		return payload(t, func(b []byte) []byte { b[0]++; return append(b, 0x0a, 0x01) })
	}, fault.GrantInvalid},
	{"keys out of order", func(t testing.TB) string {
		return payload(t, func(b []byte) []byte { b[0]++; return append(b, 0x09, 0x01) })
	}, fault.GrantInvalid},
	{"a byte behind a payload", func(t testing.TB) string { return payload(t, func(b []byte) []byte { return append(b, 0xa0) }) }, fault.GrantInvalid},
	{"a key that nobody knows", func(t testing.TB) string { return says(t, rootSaid().but(16, 1)) }, fault.GrantInvalid},
	{"a key that is a word", func(t testing.TB) string { return says(t, rootSaid().but("expires", 1)) }, fault.GrantInvalid},
	{"a field that says nothing", func(t testing.TB) string { return says(t, rootSaid().but(14, "")) }, fault.GrantInvalid},
	{"budgets that say nothing", func(t testing.TB) string { return says(t, rootSaid().but(11, said{})) }, fault.GrantInvalid},
	{"a number with a point", func(t testing.TB) string { return says(t, rootSaid().but(10, 1.5e12)) }, fault.GrantInvalid},
	{"a name that is no UTF-8", func(t testing.TB) string {
		return payload(t, func(b []byte) []byte { return bytes.Replace(b, []byte("user:ann"), []byte("user:\xff\xfen"), 1) })
	}, fault.GrantInvalid},
}

// makesNoSense lists content that a correct ledger never signs.
var makesNoSense = []forgery{
	{"no holder", func(t testing.TB) string { return says(t, rootSaid().but(5, nil)) }, fault.GrantInvalid},
	{"no policy", func(t testing.TB) string { return says(t, rootSaid().but(7, nil)) }, fault.GrantInvalid},
	{"no end of time", func(t testing.TB) string { return says(t, rootSaid().but(10, nil)) }, fault.GrantInvalid},
	{"over before it begins", func(t testing.TB) string { return says(t, rootSaid().but(10, start.UnixMilli())) }, fault.GrantInvalid},
	{"for a lifetime", func(t testing.TB) string {
		return says(t, rootSaid().but(10, start.Add(token.MaxLife+1e6).UnixMilli()))
	}, fault.GrantInvalid},
	{"a time before all time", func(t testing.TB) string { return says(t, rootSaid().but(8, -1)) }, fault.GrantInvalid},
	{"a time after all time", func(t testing.TB) string { return appends(t, said{10: uint64(1) << 60}) }, fault.GrantInvalid},
	{"an ID that does not sort", func(t testing.TB) string { return says(t, rootSaid().but(3, make([]byte, 16))) }, fault.GrantInvalid},
	{"no ledger", func(t testing.TB) string { return says(t, rootSaid().but(1, make([]byte, 32))) }, fault.GrantInvalid},
	{"no nonce", func(t testing.TB) string { return says(t, rootSaid().but(4, nil)) }, fault.GrantInvalid},
	{"a holder that moves the cursor", func(t testing.TB) string { return says(t, rootSaid().but(5, "user:\x1b[2Jann")) }, fault.GrantInvalid},
	{"a holder that is read backwards", func(t testing.TB) string { return says(t, rootSaid().but(5, "user:\u202eann")) }, fault.GrantInvalid},
	{"a file that is a path", func(t testing.TB) string { return says(t, rootSaid().but(7, [][]string{{"../a.yaml", wide}})) }, fault.GrantInvalid},
	{"a policy too large", func(t testing.TB) string {
		return says(t, rootSaid().but(7, [][]string{{"a.yaml", strings.Repeat("#", token.MaxPolicy+1)}}))
	}, fault.GrantTooLarge},
	{"a holder's key that anybody has", func(t testing.TB) string { return says(t, rootSaid().but(6, smallPoint())) }, fault.GrantInvalid},
	{"a holder's key cut short", func(t testing.TB) string { return says(t, rootSaid().but(6, []byte(public("ann"))[1:])) }, fault.GrantInvalid},
	{"a budget below nothing", func(t testing.TB) string { return appends(t, said{11: said{1: -5}}) }, fault.GrantInvalid},
	{"a budget beyond all numbers", func(t testing.TB) string { return appends(t, said{11: said{1: uint64(1) << 63}}) }, fault.GrantInvalid},
	{"one tool's budget twice", func(t testing.TB) string { return appends(t, said{11: said{2: [][]any{{"a", 1}, {"a", 2}}}}) }, fault.GrantInvalid},
	{"one tool pinned twice", func(t testing.TB) string {
		d := bytes.Repeat([]byte{1}, 32)
		return appends(t, said{12: [][]any{{"fs.read", d}, {"fs.read", d}}})
	}, fault.GrantInvalid},
	{"no tool pinned", func(t testing.TB) string {
		return appends(t, said{12: [][]any{{"fs read", bytes.Repeat([]byte{1}, 32)}}})
	}, fault.GrantInvalid},
	{"a tool pinned to half a digest", func(t testing.TB) string {
		return appends(t, said{12: [][]any{{"fs.read", bytes.Repeat([]byte{1}, 16)}}})
	}, fault.GrantInvalid},
	{"a workspace that is nowhere", func(t testing.TB) string { return appends(t, said{15: "src"}) }, fault.GrantInvalid},
	{"an appended block that names another ledger", func(t testing.TB) string { return appends(t, said{1: make([]byte, 32)}) }, fault.GrantInvalid},
	{"an appended block that names another grant", func(t testing.TB) string { return appends(t, said{3: rootSaid()[3]}) }, fault.GrantInvalid},
	{"an appended block with a nonce", func(t testing.TB) string { return appends(t, said{4: make([]byte, 16)}) }, fault.GrantInvalid},
	{"an appended key that anybody can sign with", func(t testing.TB) string {
		return forge(t, key("ledger"), rogue{payload: encode(t, rootSaid()), next: smallPoint()})
	}, fault.GrantInvalid},
}

// signedWrong lists tokens of the right form with wrong signatures.
var signedWrong = []forgery{
	{"another ledger's", func(t testing.TB) string { return says(t, rootSaid().but(1, bytes.Repeat([]byte{7}, 32))) }, fault.GrantLedger},
	{"signed with a key of one's own, named", func(t testing.TB) string {
		id := token.KeyID(public("mallory"))
		return forge(t, key("mallory"), rogue{payload: encode(t, rootSaid().but(2, id[:]))})
	}, fault.GrantKey},
	{"signed with a key of one's own", func(t testing.TB) string { return forge(t, key("mallory"), rogue{payload: encode(t, rootSaid())}) }, fault.GrantForged},
	{"blocks in another order", func(t testing.TB) string {
		return changed(t, func(p *parts) { p.Blocks[1], p.Blocks[2] = p.Blocks[2], p.Blocks[1] })
	}, fault.GrantForged},
	{"a block left out", func(t testing.TB) string {
		return changed(t, func(p *parts) { p.Blocks = slices.Delete(p.Blocks, 1, 2) })
	}, fault.GrantForged},
	{"the last block left out", func(t testing.TB) string { return changed(t, func(p *parts) { p.Blocks = p.Blocks[:2] }) }, fault.GrantForged},
	{"all appended blocks left out", func(t testing.TB) string { return changed(t, func(p *parts) { p.Blocks = p.Blocks[:1] }) }, fault.GrantForged},
	{"the last block left out, with an end of one's own", func(t testing.TB) string {
		return changed(t, func(p *parts) { p.Blocks = p.Blocks[:2]; p.Proof.Value = key("mallory").Seed() })
	}, fault.GrantForged},
	{"the last block replaced by one of one's own", func(t testing.TB) string {
		return changed(t, func(p *parts) {
			p.Blocks[2].Payload, p.Blocks[2].Next, p.Proof.Value = encode(t, said{}), public("mallory"), key("mallory").Seed()
			p.Blocks[2].Sig = ed25519.Sign(key("mallory"), p.message(t, 2))
		})
	}, fault.GrantForged},
	{"a block twice", func(t testing.TB) string {
		return changed(t, func(p *parts) { p.Blocks = append(p.Blocks, p.Blocks[2]) })
	}, fault.GrantForged},
	{"a block of another token", func(t testing.TB) string {
		other := apart(t, add(t, issue(t, token.Root{Ledger: ledgerID, ID: otherID, Block: root().Block}), narrowing()))
		return changed(t, func(p *parts) { p.Blocks[1] = other.Blocks[1] })
	}, fault.GrantForged},
	{"the root of another token", func(t testing.TB) string {
		other := apart(t, issue(t, token.Root{Ledger: ledgerID, ID: otherID, Block: root().Block}))
		return changed(t, func(p *parts) { p.Blocks[0] = other.Blocks[0] })
	}, fault.GrantForged},
	{"the end of the token before", func(t testing.TB) string {
		before := apart(t, issue(t, root()))
		return changed(t, func(p *parts) { p.Proof = before.Proof })
	}, fault.GrantForged},
	{"a later end of time in the root", func(t testing.TB) string {
		return changed(t, func(p *parts) {
			p.Blocks[0].Payload = encode(t, rootSaid().but(10, start.Add(48*time.Hour).UnixMilli()))
		})
	}, fault.GrantForged},
	{"another next key", func(t testing.TB) string { return changed(t, func(p *parts) { p.Blocks[1].Next = public("mallory") }) }, fault.GrantForged},
	{"another block's signature", func(t testing.TB) string { return changed(t, func(p *parts) { p.Blocks[1].Sig = p.Blocks[2].Sig }) }, fault.GrantForged},
	{"a signature of zeros", func(t testing.TB) string { return changed(t, func(p *parts) { p.Blocks[0].Sig = make([]byte, 64) }) }, fault.GrantForged},
	{"another spelling of a signature", func(t testing.TB) string {
		return changed(t, func(p *parts) { p.Blocks[2].Sig = plusOrder(p.Blocks[2].Sig) })
	}, fault.GrantForged},
	{"a signature that nothing needs", func(t testing.TB) string {
		return forge(t, key("ledger"), rogue{payload: encode(t, rootSaid())}, rogue{payload: encode(t, said{}), handover: key("ann")})
	}, fault.GrantForged},
	{"a seal of another token", func(t testing.TB) string {
		other := apart(t, seal(t, issue(t, root())))
		return changed(t, func(p *parts) { p.Proof = other.Proof })
	}, fault.GrantForged},
	{"a seal with a key of one's own", func(t testing.TB) string {
		return changed(t, func(p *parts) { p.Proof = proof{Kind: 1, Value: ed25519.Sign(key("mallory"), p.seal(t))} })
	}, fault.GrantForged},
	{"a seal taken off", func(t testing.TB) string {
		p := apart(t, seal(t, three(t)))
		p.Proof = proof{Kind: 0, Value: key("mallory").Seed()}
		return p.text(t)
	}, fault.GrantForged},
	{"a block behind a seal", func(t testing.TB) string {
		p := apart(t, seal(t, three(t)))
		p.Blocks = append(p.Blocks, part{Payload: encode(t, said{}), Next: public("mallory")})
		p.Blocks[3].Sig = ed25519.Sign(key("mallory"), p.message(t, 3))
		return p.text(t)
	}, fault.GrantForged},
	{"a seal on fewer blocks", func(t testing.TB) string {
		p := apart(t, seal(t, three(t)))
		p.Blocks = p.Blocks[:2]
		return p.text(t)
	}, fault.GrantForged},
	{"a block signed as a seal", func(t testing.TB) string {
		return changed(t, func(p *parts) { p.Proof = proof{Kind: 1, Value: p.Blocks[2].Sig} })
	}, fault.GrantForged},
	{"given to another key by a thief", func(t testing.TB) string {
		return bound(t, rogue{payload: encode(t, said{6: []byte(public("mallory"))})})
	}, fault.GrantForged},
	{"given to another key with the thief's signature", func(t testing.TB) string {
		return bound(t, rogue{payload: encode(t, said{6: []byte(public("mallory"))}), handover: key("mallory")})
	}, fault.GrantForged},
	{"given to another key with a signature for another block", func(t testing.TB) string {
		good := apart(t, bound(t, rogue{payload: encode(t, said{6: []byte(public("bob"))}), handover: key("ann")}))
		p := apart(t, bound(t, rogue{payload: encode(t, said{6: []byte(public("mallory"))})}))
		p.Blocks[1].Handover = good.Blocks[1].Handover
		p.Blocks[1].Sig = ed25519.Sign(ed25519.NewKeyFromSeed(apart(t, bound(t)).Proof.Value), p.message(t, 1))
		return p.text(t)
	}, fault.GrantForged},
	{"a handover taken away", func(t testing.TB) string {
		p := apart(t, bound(t, rogue{payload: encode(t, said{6: []byte(public("bob"))}), handover: key("ann")}))
		p.Blocks[1].Handover = nil
		return p.text(t)
	}, fault.GrantForged},
}

// handedWrong lists tokens that were delegated further than their blocks allow.
var handedWrong = []forgery{
	{"handed on although nobody may have it", func(t testing.TB) string {
		return forge(t, key("ledger"), rogue{payload: encode(t, rootSaid().but(13, []string{}))}, rogue{payload: encode(t, said{5: "agent:a"})})
	}, fault.NotDelegable},
	{"handed on to somebody else", func(t testing.TB) string {
		return forge(t, key("ledger"), rogue{payload: encode(t, rootSaid().but(13, []string{"agent:docs-*"}))}, rogue{payload: encode(t, said{5: "agent:a"})})
	}, fault.NotDelegable},
	{"handed on twice where once is allowed", func(t testing.TB) string {
		return appends(t, said{11: said{10: 1}}, said{5: "agent:a"}, said{5: "agent:b"})
	}, fault.NotDelegable},
	{"handed on where there may be no children", func(t testing.TB) string { return appends(t, said{11: said{9: 0}}, said{5: "agent:a"}) }, fault.NotDelegable},
	{"handed on under the same name to another key", func(t testing.TB) string {
		return bound(t, rogue{payload: encode(t, said{11: said{10: 0}})}, rogue{payload: encode(t, said{6: []byte(public("bob"))}), handover: key("ann")})
	}, fault.NotDelegable},
	{"a list made longer by a later block", func(t testing.TB) string {
		return appends(t, said{13: []string{"agent:a"}}, said{13: []string{"*"}}, said{5: "agent:b"})
	}, fault.NotDelegable},
}

// bound is a token bound to ann's key, with more blocks.
func bound(t testing.TB, more ...rogue) string {
	t.Helper()
	r := rogue{payload: encode(t, rootSaid().but(6, []byte(public("ann"))))}
	return forge(t, key("ledger"), append([]rogue{r}, more...)...)
}

func seal(t testing.TB, s string) string {
	t.Helper()
	out, err := token.Seal(s)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// seal returns the message that a seal's signature covers, built from the
// format's description.
func (p parts) seal(t testing.TB) []byte {
	t.Helper()
	return encode(t, []any{"remit.run/token/seal", 1, len(p.Blocks), p.Blocks[len(p.Blocks)-1].Sig})
}

func TestForgeries(t *testing.T) {
	n := 0
	for _, group := range [][]forgery{spelled, encodedWrong, makesNoSense, signedWrong, handedWrong} {
		for _, f := range group {
			n++
			t.Run(f.name, func(t *testing.T) {
				s := f.make(t)
				use := token.Use{At: noon, Held: token.Held{Seen: token.NewReplay(8).Use}}
				claims, err := token.Verify(s, trust, use)
				if fault.CodeOf(err) != f.want || claims != (token.Claims{}) {
					t.Errorf("Verify gives %v, want %v", err, f.want)
				}
				quiet(t, s, err)
				if claims, err := token.Authentic(s, trust, noon); fault.CodeOf(err) != f.want || claims != (token.Claims{}) {
					t.Errorf("Authentic gives %v, want %v", err, f.want)
				}
			})
		}
	}
	if n < 45 {
		t.Errorf("only %d forgeries", n)
	}
}

// quiet checks that an error is useful and holds no part of a token or a key.
func quiet(t *testing.T, s string, err error) {
	t.Helper()
	if err == nil {
		return
	}
	all := err.Error()
	for e := err; e != nil; {
		var f *fault.Error
		if !asFault(e, &f) {
			break
		}
		if f.Err != nil {
			all += f.Err.Error()
		}
		e = f.Err
	}
	for i := len(token.Prefix); i+12 <= len(s); i++ {
		if strings.Contains(all, s[i:i+12]) && !strings.Contains(all, "sha256:"+s[i:i+12]) {
			t.Fatalf("the error holds a part of the token: %s", all)
		}
	}
	if strings.ContainsAny(all, "\x1b\u202e\n") {
		t.Errorf("the error holds what the token said as it was: %q", all)
	}
}
