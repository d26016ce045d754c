package secret_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/remitrun/remit/internal/confine/secret"
)

func TestTheKeyIsRotated(t *testing.T) {
	dir := t.TempDir()
	s := secret.Open(dir, nil)
	if _, err := s.Set("token", "value-of-the-token", time.Now()); err != nil {
		t.Fatal(err)
	}
	key, values := filepath.Join(dir, "keys", "secrets.key"), filepath.Join(dir, "secrets.age")
	read := func(name string) string {
		t.Helper()
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	oldKey, oldValues := read(key), read(values)
	if _, err := s.Rotate(); err != nil {
		t.Fatal(err)
	}
	newKey, newValues := read(key), read(values)
	if strings.Contains(newKey, lastLine(oldKey)) || newValues == oldValues {
		t.Fatal("the old key is still there")
	}
	// A process that is killed between the writes leaves these.
	both := newKey + lastLine(oldKey) + "\n"
	for name, files := range map[string][2]string{"the key": {both, oldValues}, "the values": {both, newValues}, "all": {newKey, newValues}} {
		write(t, key, files[0])
		write(t, values, files[1])
		if v, err := s.Get("token"); v != "value-of-the-token" || err != nil {
			t.Errorf("after %s was written: %v", name, err)
		}
		if _, err := s.Rotate(); err != nil {
			t.Errorf("after %s was written: %v", name, err)
		}
		names, _, err := s.Keys()
		if v, gerr := s.Get("token"); len(names) != 1 || err != nil || gerr != nil || v != "value-of-the-token" {
			t.Errorf("after %s was written, and a rotation: %v, %v, %v", name, names, err, gerr)
		}
	}
	write(t, key, oldKey) // who has the old key alone
	if _, err := s.Get("token"); err == nil {
		t.Error("the old key opens the new file")
	}
}

func lastLine(s string) string {
	lines := strings.Split(strings.TrimSpace(s), "\n")
	return lines[len(lines)-1]
}

func write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
