package hookwire_test

import (
	"bytes"
	"testing"

	"github.com/remitrun/remit/internal/doors/hookwire"
)

// What is accepted is written back to the byte, so no message has two readings.
func FuzzMessages(f *testing.F) {
	r, err := hookwire.Request{Program: "p", Args: []string{"claude", "", "-w"}, Env: []string{"A=b", ""}, Dir: "/", Event: []byte("{\x00}")}.Bytes()
	if err != nil {
		f.Fatal(err)
	}
	sh, err := hookwire.Request{Shell: true, Program: "p", Args: []string{"-c", "a\nb"}, Env: []string{"A=b"}, Dir: "/"}.Bytes()
	if err != nil {
		f.Fatal(err)
	}
	port, err := hookwire.Request{Port: true, Args: []string{"session", "/workspace"}}.Bytes()
	if err != nil {
		f.Fatal(err)
	}
	a := hookwire.Answer{Status: 2, Out: []byte("out"), Err: []byte("err")}.Bytes()
	for _, b := range [][]byte{r, sh, port, a, r[:len(r)-1], sh[:len(sh)-1], sh[:11], append(a, 0), hookwire.Answer{Decline: true}.Bytes(), nil} {
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if r, err := hookwire.ParseRequest(b); err == nil {
			if back, err := r.Bytes(); err != nil || !bytes.Equal(back, b) {
				t.Errorf("%q was read as %+v, %v", b, r, err)
			}
			if r.Shell != bytes.HasPrefix(b, []byte("remit sh")) || r.Port != bytes.HasPrefix(b, []byte("remit port")) {
				t.Errorf("%q was read as another kind: %+v", b, r)
			}
		}
		if a, err := hookwire.ParseAnswer(b); err == nil && !bytes.Equal(a.Bytes(), b) {
			t.Errorf("%q was read as %+v", b, a)
		}
	})
}

// A message that lost its end, at any byte, is no message.
func TestHalfMessagesAreRefused(t *testing.T) {
	whole := hookwire.Answer{Out: []byte("allow"), Err: []byte("e")}.Bytes()
	for n := range whole {
		if a, err := hookwire.ParseAnswer(whole[:n]); err == nil {
			t.Errorf("%d bytes of %d are %+v", n, len(whole), a)
		}
	}
	if _, err := (hookwire.Request{Args: []string{"a\x00b"}}).Bytes(); err == nil {
		t.Error("a word became two")
	}
	if _, err := (hookwire.Request{Event: make([]byte, hookwire.MaxRequest)}).Bytes(); err == nil {
		t.Error("a message is larger than its limit")
	}
}
