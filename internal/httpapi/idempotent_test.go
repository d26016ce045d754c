package httpapi_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/remitrun/remit/internal/httpapi"
)

// What is kept for repeated requests is bounded: the oldest answer is forgotten.
func TestRememberedAnswersAreBounded(t *testing.T) {
	s := server(t, newWorld(), func(o *httpapi.Options) { o.Limits.Remembered = 3 })
	make1 := func(key string) (id string, replayed bool) {
		t.Helper()
		rec := post("/v1/agents", `{"name":"a"}`).with("Idempotency-Key", key).of(s)
		id, _ = wantStatus(t, rec, 201)["id"].(string)
		return id, rec.Header().Get("Idempotency-Replayed") == "true"
	}
	first, _ := make1("k0")
	for i := range 3 {
		make1(fmt.Sprintf("k%d", i+1))
	}
	if again, replayed := make1("k0"); replayed || again == first {
		t.Error("the oldest answer is still kept")
	}
	if _, replayed := make1("k3"); !replayed {
		t.Error("a new answer is forgotten")
	}
}

// An answer that is too large to keep is given, and the same request made again: the
// header that says that it was not is missing.
func TestLargeAnswersAreNotKept(t *testing.T) {
	s := server(t, newWorld())
	big := post("/v1/agents", `{"name":"a","policy":"`+strings.Repeat("x", 400<<10)+`"}`).with("Idempotency-Key", "big")
	wantStatus(t, big.of(s), 201)
	rec := big.of(s)
	if rec.Code != 201 || rec.Header().Get("Idempotency-Replayed") != "" {
		t.Errorf("%d %v", rec.Code, rec.Header())
	}
}
