package httpapi_test

import (
	"fmt"
	"testing"
)

// TestAuthorityOfOthers: who may not read what others made asks about its own grant alone.
func TestAuthorityOfOthers(t *testing.T) {
	w := newWorld()
	s := server(t, w)
	w.caller("alone", "user:a", "policies.read")
	w.caller("reader", "user:r", "policies.read", "others.read")
	w.caller("neither", "user:n", "sessions.read")
	const path = "/v1/policies/authority"
	for token, want := range map[string]string{"alone": "[user:a]", "reader": "[user:r agent:other]"} {
		m := wantStatus(t, post(path, `{}`).as(token).of(s), 200)
		if got := fmt.Sprint(m["holders"]); got != want {
			t.Errorf("%s asks about %s, want %s", token, got, want)
		}
	}
	wantStatus(t, post(path, `{}`).as("neither").of(s), 403)
	wantStatus(t, post(path, `{"from":"nowhere","to":"x"}`).as("alone").of(s), 400)
}
