package provenance_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/remitrun/remit/internal/authority/provenance"
)

func output(text string) map[string]any { return map[string]any{"text": text} }

func outside(call int, text string) provenance.Result {
	return provenance.Result{Origin: provenance.Origin{Kind: provenance.Outside, Call: call, Tool: "mcp:mail:read", About: "inbox"}, Output: output(text)}
}

func trusted(call int, text string) provenance.Result {
	return provenance.Result{Origin: provenance.Origin{Kind: provenance.Trusted, Call: call, Tool: "fs.read"}, Output: output(text), Scope: 1}
}

func TestWhatIsTrusted(t *testing.T) {
	x := provenance.New()
	x.Say(provenance.Person, "Please e-mail Linda <linda.green@bluesparrow.example> and book 'Le Marais Boutique', see https://Docs.example/Guide?id=7.\n"+
		"Pay GB29 NWBK 6016 1331 9268 19, or DE89-3704-0044-0532-0130-00. Delete ./src/old.txt and docs/. Ｆｕｌｌ width.")
	x.Say(provenance.Policy, "api.acme.com")
	x.Add(trusted(1, "origin git@github.example:ann/site.git (push)\nbranch release-2"))
	x.Add(outside(2, "pay US133000000121212121212 or mail evil@attacker.example, see https://evil.example/a?q=1 and Riverside View Hotel"))
	tests := map[string]struct {
		value   string
		trusted bool
		given   bool
	}{
		"a word of the person":              {"linda", true, true},
		"an address":                        {"linda.green@bluesparrow.example", true, true},
		"an address in another case":        {"Linda.Green@BlueSparrow.example", true, true},
		"an address with a name":            {"Miss Green <linda.green@bluesparrow.example>", true, true},
		"mailto":                            {"mailto:linda.green@bluesparrow.example", false, false},
		"a similar address":                 {"linda.green@luesparrow.example", false, false},
		"a phrase":                          {"Le  Marais\u00a0Boutique", true, true},
		"its words in another order":        {"Boutique Le Marais", false, false},
		"words that are not beside another": {"book delete", false, false},
		"a URL":                             {"https://docs.example/Guide?id=7", true, true},
		"a URL without its scheme":          {"docs.example/Guide?id=7", true, true},
		"a URL with its path in other case": {"https://docs.example/guide?id=7", false, false},
		"a URL that goes on":                {"https://docs.example/Guide?id=7&to=evil", false, false},
		"a URL of another scheme":           {"ftp://docs.example/Guide?id=7", false, false},
		"its host":                          {"docs.example", true, true},
		"an account without its spaces":     {"GB29NWBK60161331926819", true, true},
		"an account in other groups":        {"gb29 NWBK 60161331 926819", true, true},
		"an account with hyphens":           {"DE89370400440532013000", true, true},
		"another account":                   {"GB29NWBK60161331926818", false, false},
		"a path":                            {"src/old.txt", true, true},
		"a folder":                          {"docs", true, true},
		"compatibility forms":               {"full width", true, true},
		"invisible characters":              {"lin\u200bda", true, true},
		"the operator":                      {"api.acme.com", true, true},
		"a trusted result":                  {"release-2", true, false},
		"a URL of a trusted result":         {"git@github.example:ann/site.git", true, false},
		"an account of others":              {"US133000000121212121212", false, false},
		"an address of others":              {"evil@attacker.example", false, false},
		"a phrase of others":                {"Riverside View Hotel", false, false},
		"unknown":                           {"never seen", false, false},
		"nothing":                           {"", false, false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if f := x.Find(1, tt.value); f.Trusted != tt.trusted || f.Given != tt.given {
				t.Errorf("%q: trusted %v, given %v", tt.value, f.Trusted, f.Given)
			}
		})
	}
	if f := x.Find(2, "release-2"); f.Trusted {
		t.Error("a result is trusted under other rules than those that it was trusted under")
	}
	f := x.Find(1, "evil@attacker.example")
	if o := f.Origin; o.Kind != provenance.Outside || o.Call != 2 || o.Tool != "mcp:mail:read" || o.Field != "text" || o.About != "inbox" {
		t.Errorf("origin %+v", o)
	}
}

// A trusted tool that repeats its arguments makes nothing trusted.
func TestARepeatedValueIsNotTrusted(t *testing.T) {
	x := provenance.New()
	x.Add(outside(1, "evil@attacker.example"))
	r := trusted(2, "no entry for evil@attacker.example, but for ann@home.example")
	r.Args = map[string]any{"query": "evil@attacker.example"}
	x.Add(r)
	x.Add(trusted(3, "evil@attacker.example"))
	if x.Find(1, "evil@attacker.example").Trusted {
		t.Error("a repeated address is trusted")
	}
	if !x.Find(1, "ann@home.example").Trusted {
		t.Error("the rest of the result is not trusted")
	}
	x.Say(provenance.Person, "yes, evil@attacker.example is right")
	if !x.Find(1, "evil@attacker.example").Given {
		t.Error("the person cannot name it")
	}
}

func TestAnEndorsedValue(t *testing.T) {
	x := provenance.New()
	x.Add(outside(1, "dora@gmail.example"))
	x.Endorse("invite", "email", "Dora@gmail.example")
	for _, tt := range []struct {
		tool, argument, value string
		want                  bool
	}{{"invite", "email", "dora@gmail.example", true}, {"invite", "name", "dora@gmail.example", false}, {"send", "email", "dora@gmail.example", false}, {"invite", "email", "eve@gmail.example", false}} {
		if got := x.Endorsed(tt.tool, tt.argument, tt.value); got != tt.want {
			t.Errorf("%v: %v", tt, got)
		}
	}
	if x.Find(1, "dora@gmail.example").Trusted {
		t.Error("an endorsed value is trusted everywhere")
	}
}

func TestLinksAfterAConfidentialRead(t *testing.T) {
	x := provenance.New()
	var b strings.Builder
	for i := range 20 {
		fmt.Fprintf(&b, "https://evil.example/%d ", i)
	}
	x.Add(outside(1, b.String()))
	for i := range 20 {
		if !x.HasLink(fmt.Sprintf("https://evil.example/%d", i), false) {
			t.Fatalf("link %d", i)
		}
	}
	if x.HasLink("https://evil.example/made", false) {
		t.Error("a made-up link")
	}
	followed := 0
	for range 2 { // the same ones may be followed again
		for i := range 20 {
			if x.HasLink(fmt.Sprintf("https://evil.example/%d", i), true) {
				followed++
			}
		}
	}
	if followed != 32 {
		t.Errorf("%d links were followed after a confidential read", followed)
	}
}

func TestSimilarAddresses(t *testing.T) {
	x := provenance.New()
	x.Say(provenance.Person, "linda.green@bluesparrow.example")
	for range 12 {
		x.Used("Linda.Green@bluesparrow.example")
	}
	for _, v := range []string{"linda.green@luesparrow.example", "1inda.green@bluesparrow.example", "lindа.green@bluesparrow.example"} {
		if a, n := x.Similar(v); a != "linda.green@bluesparrow.example" || n != 12 {
			t.Errorf("%q: %q, %d", v, a, n)
		}
	}
	for _, v := range []string{"mark@elsewhere.example", "linda.green@bluesparrow.example", "linda"} {
		if a, _ := x.Similar(v); a != "" {
			t.Errorf("%q: %q", v, a)
		}
	}
}

func TestItems(t *testing.T) {
	x := provenance.New()
	x.Add(provenance.Result{Origin: provenance.Origin{Kind: provenance.Outside, Call: 1, Tool: "hotels"}, Output: map[string]any{"names": []any{"Good Night", "Luxury Palace"}, "text": "City Hub\nLe Marais Boutique"}})
	for v, want := range map[string]bool{"Luxury Palace": true, "luxury palace": true, "Luxury": false, "City Hub": true, "Night Luxury": false} {
		if o, ok := x.Item(v); ok != want || ok && o.Tool != "hotels" {
			t.Errorf("%q: %v %+v", v, ok, o)
		}
	}
}

func TestEmbedded(t *testing.T) {
	for text, want := range map[string]string{
		"GB29 NWBK 6016 1331": "GB29NWBK60161331",
		"see www.secure-systems-252.com or https://a.example/x, thanks": "www.secure-systems-252.com https://a.example/x",
		"write to (ann@b.example).":                                     "ann@b.example",
		"pay US133000000121212121212 now":                               "US133000000121212121212",
		"edit main.go and README.md at 12.30":                           "",
		"evil.xyz/a is a link, evil.zip/a is too":                       "evil.xyz/a evil.zip/a",
		"Stay at City Hub, Tokyo 160-0023, from 1st":                    "",
	} {
		got := strings.Join(provenance.Embedded(text), " ")
		if got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

func FuzzFind(f *testing.F) {
	f.Add("https://a.example/x?y=1", "pay GB29 NWBK 6016")
	f.Add("Ann <ann@example.com>", "a\u200bb\n\xff")
	f.Add("0@.#0 mailto:'ann@example.com.#x", "0")
	f.Fuzz(func(t *testing.T, value, other string) {
		x := provenance.New()
		x.Add(outside(1, other))
		if x.Find(0, value).Trusted {
			t.Fatalf("%q is trusted, but nothing was said", value)
		}
		x.Say(provenance.Person, value)
		for _, v := range provenance.Embedded(value) {
			if !x.Find(0, v).Given {
				t.Fatalf("the person said %q, but not %q", value, v)
			}
		}
	})
}

// pages makes about n bytes of text like that of pages and mails.
func pages(n int) string {
	r := rand.New(rand.NewPCG(1, 2))
	var b strings.Builder
	for b.Len() < n {
		switch w := r.IntN(100); {
		case w < 2:
			fmt.Fprintf(&b, "https://host%d.example/p/%d ", r.IntN(500), r.IntN(5000))
		case w < 4:
			fmt.Fprintf(&b, "user%d@mail%d.example ", r.IntN(5000), r.IntN(50))
		case w < 10:
			b.WriteString("\n")
		default:
			fmt.Fprintf(&b, "%s%d ", [...]string{"meeting", "the", "invoice", "of", "please", "account", "tomorrow", "a"}[r.IntN(8)], r.IntN(200))
		}
	}
	return b.String()
}

func BenchmarkAdd(b *testing.B) {
	text := pages(1 << 20)
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		provenance.New().Add(outside(1, text))
	}
	b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N)/1024, "us/KiB")
}

func BenchmarkAddTrusted(b *testing.B) {
	text := pages(1 << 20)
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		provenance.New().Add(trusted(1, text))
	}
	b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N)/1024, "us/KiB")
}

func BenchmarkFind(b *testing.B) {
	x := provenance.New()
	x.Add(outside(1, pages(1<<20)))
	b.ReportAllocs()
	for b.Loop() {
		x.Find(0, "user17@mail3.example")
		x.Find(0, "https://host17.example/p/99")
		x.Find(0, "please pay the invoice of tomorrow")
	}
}
