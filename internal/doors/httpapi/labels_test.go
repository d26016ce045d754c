package httpapi_test

import (
	"fmt"
	"net/url"
	"testing"
)

func TestLabelsAreListedInPages(t *testing.T) {
	s := server(t, newWorld())
	var seen []string
	for cursor := ""; ; {
		m := wantStatus(t, get("/v1/labels?limit=1&cursor="+url.QueryEscape(cursor)).of(s), 200)
		for _, one := range m["items"].([]any) {
			path := one.(map[string]any)["path"].(string)
			seen = append(seen, path[len(path)-1:])
		}
		next, _ := m["next"].(string)
		if next == "" {
			break
		}
		if next == cursor || len(seen) > 3 {
			t.Fatalf("the page after %q is %q", cursor, next)
		}
		cursor = next
	}
	if got := fmt.Sprint(seen); got != "[0 1 2]" {
		t.Errorf("the pages have %s", got)
	}
	if m := wantStatus(t, get("/v1/labels?label=mail").of(s), 200); len(m["items"].([]any)) != 0 {
		t.Errorf("of another label: %v", m)
	}
	for query, want := range map[string]int{"below=notes": 422, "below=%2Fa%00": 422, "cursor=x": 400} {
		if m := wantStatus(t, get("/v1/labels?"+query).of(s), want); m["items"] != nil {
			t.Errorf("%s: %v", query, m)
		}
	}
}

func TestAPersonClearsLabels(t *testing.T) {
	w := newWorld()
	w.caller("reader", "user:ann", "labels.read")
	w.caller("agent", "agent:docs", "*")
	for token, c := range w.callers {
		c.Root = "grant-" + token
	}
	s := server(t, w)
	clear := func(path string) ask { return post("/v1/labels/clear", fmt.Sprintf(`{"path":%q}`, path)) }
	if m := wantStatus(t, clear("/a/./b").of(s), 200); m["labels"] != 2.0 {
		t.Errorf("cleared %v", m)
	}
	wantStatus(t, clear("/a/c").of(s), 404)
	wantStatus(t, clear("a/b").of(s), 422)
	for _, token := range []string{"reader", "agent"} {
		wantStatus(t, clear("/a/b").as(token).of(s), 403)
	}
	w.callers["admin"].Root = "grant-of-the-boss" // it was narrowed from
	wantStatus(t, clear("/a/b").of(s), 403)
}
