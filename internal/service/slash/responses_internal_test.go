package slash

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/remitrun/remit/internal/agents/chat"
	"github.com/remitrun/remit/internal/service/home"
)

func TestTheLastResponseOfASession(t *testing.T) {
	homeDir := filepath.Join(t.TempDir(), "home")
	s := responses{&home.Home{Config: home.Config{Dir: homeDir}}}
	key := sessionKey("s", "/ws")
	for _, other := range []string{sessionKey("s", "/other"), sessionKey("t", "/ws"), sessionKey("", "/ws")} {
		if other == key {
			t.Error("two sessions have one key")
		}
	}
	if _, ok, err := s.lastResponse(key); ok || err != nil {
		t.Fatal(ok, err)
	}
	for _, content := range []string{"first", strings.Repeat("\x01ä", chat.MaxResponse/3)} {
		if err := s.keep(key, chat.Response{At: time.Now(), Content: content}); err != nil {
			t.Fatal(err)
		}
		if r, ok, err := s.lastResponse(key); !ok || err != nil || r.Content != content {
			t.Fatalf("%d bytes, %v, %v", len(r.Content), ok, err)
		}
	}
	files, err := filepath.Glob(filepath.Join(homeDir, "responses", "*"))
	if err != nil || len(files) != 1 {
		t.Fatal(files, err)
	}
	if st, err := os.Stat(files[0]); err != nil || st.Mode().Perm() != 0o600 {
		t.Error(st, err)
	}
	if err := s.keep(key, chat.Response{At: time.Now().Add(-25 * time.Hour), Content: "old"}); err != nil {
		t.Fatal(err)
	}
	if _, ok, err := s.lastResponse(key); ok || err != nil {
		t.Error("an old response counts", err)
	}
	old := time.Now().Add(-25 * time.Hour)
	if err := os.Chtimes(files[0], old, old); err != nil {
		t.Fatal(err)
	}
	if err := s.keep("other", chat.Response{At: time.Now(), Content: "new"}); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(files[0]); err == nil {
		t.Error("an old response is not removed")
	}
}
