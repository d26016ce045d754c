package postgres_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"strings"
	"testing"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/record/store/postgres"
)

// TestAVerifierIsThatOfThePassword uses the exchange of RFC 7677, section 3.
func TestAVerifierIsThatOfThePassword(t *testing.T) {
	b64 := func(text string) []byte {
		b, err := base64.StdEncoding.DecodeString(text)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	v, err := postgres.ScramWith("pencil", b64("W22ZaJ0SNY7soEsUEjb6gQ=="))
	if err != nil {
		t.Fatal(err)
	}
	keys, ok := strings.CutPrefix(v, "SCRAM-SHA-256$4096:W22ZaJ0SNY7soEsUEjb6gQ==$")
	stored, server, two := strings.Cut(keys, ":")
	if !ok || !two {
		t.Fatal(v)
	}
	const said = "n=user,r=rOprNGfwEbeRWgbNEkqO,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096,c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
	mac := func(key []byte) []byte {
		m := hmac.New(sha256.New, key)
		m.Write([]byte(said))
		return m.Sum(nil)
	}
	client := b64("dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=") // the proof
	for i, b := range mac(b64(stored)) {
		client[i] ^= b
	}
	if sum := sha256.Sum256(client); base64.StdEncoding.EncodeToString(sum[:]) != stored {
		t.Errorf("the stored key is %s", stored)
	}
	if got := base64.StdEncoding.EncodeToString(mac(b64(server))); got != "6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=" {
		t.Errorf("the server's signature is %s", got)
	}
}

func TestTenantsHaveNamesOfTheirOwn(t *testing.T) {
	for _, name := range []string{"", "Blue", "1st", "a-b", `a"; DROP ROLE remit; --`, strings.Repeat("a", 60)} {
		if _, err := postgres.MakeTenant(t.Context(), server.URL("public"), name); fault.CodeOf(err) != fault.Usage {
			t.Errorf("%q: %v", name, err)
		}
	}
	for _, url := range []string{"", "host=/tmp user=remit", "mysql://x"} {
		if _, err := postgres.MakeTenant(t.Context(), url, "blue"); fault.CodeOf(err) != fault.Usage {
			t.Errorf("%q: %v", url, err)
		}
	}
}
