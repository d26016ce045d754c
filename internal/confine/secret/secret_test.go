package secret_test

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/zalando/go-keyring"
	"go.uber.org/goleak"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/confine/secret"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const value = "ghp_0123456789abcdef"

var now = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// ring is a keyring that can fail.
type ring struct {
	kept map[string]string
	fail error
}

func (r *ring) Set(name, v string) error {
	if r.fail == nil {
		r.kept[name] = v
	}
	return r.fail
}

func (r *ring) Get(name string) (string, error) { return r.kept[name], r.fail }

func (r *ring) Remove(name string) error {
	if r.fail == nil {
		delete(r.kept, name)
	}
	return r.fail
}

func set(t *testing.T, s *secret.Store, name, v string) secret.Entry {
	t.Helper()
	e, err := s.Set(name, v, now)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func TestAValueIsKept(t *testing.T) {
	dir := t.TempDir()
	s := secret.Open(dir, nil)
	if all, err := s.All(); len(all) != 0 || err != nil {
		t.Fatalf("at first: %v, %v", all, err)
	}
	if e := set(t, s, "github", "old-value-1"); e.In != secret.File || !e.Set.Equal(now) {
		t.Errorf("%+v", e)
	}
	set(t, s, "npm", "npm-value-2")
	set(t, s, "github", value)
	other := secret.Open(dir, nil)
	if v, err := other.Get("github"); v != value || err != nil {
		t.Errorf("%q, %v", v, err)
	}
	if all, err := other.All(); err != nil || len(all) != 2 || all["npm"] != "npm-value-2" {
		t.Errorf("%v, %v", all, err)
	}
	if list, err := other.List(); err != nil || len(list) != 2 || list[0].Name != "github" || list[1].Name != "npm" {
		t.Errorf("%v, %v", list, err)
	}
	if err := other.Remove("github"); err != nil {
		t.Fatal(err)
	}
	if v, err := s.Get("github"); v != "" || !errors.Is(err, fault.NotFound) {
		t.Errorf("after removal: %q, %v", v, err)
	}
	if err := s.Remove("github"); !errors.Is(err, fault.NotFound) {
		t.Errorf("removed twice: %v", err)
	}
}

func TestFilesHoldNoValueAndAreTheOwners(t *testing.T) {
	dir := t.TempDir()
	set(t, secret.Open(dir, nil), "github", value)
	err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		if bytes.Contains(b, []byte(value)) || bytes.Contains(b, []byte("github")) {
			t.Errorf("%s holds the value or its name", name)
		}
		if st, err := d.Info(); err != nil || st.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", name, st.Mode(), err)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestRefusedNamesAndValues(t *testing.T) {
	s := secret.Open(t.TempDir(), nil)
	for _, name := range []string{"", "A", "a b", "-a", "a-", "a--b", "a.b", "é", "1a", strings.Repeat("a", 65), "a\n"} {
		if _, err := s.Set(name, value, now); !errors.Is(err, fault.Usage) {
			t.Errorf("name %q: %v", name, err)
		}
	}
	for what, v := range map[string]string{"empty": "", "short": "1234567", "NUL": "12345678\x00", "no text": "12345678\xff", "long": strings.Repeat("x", secret.MaxValue+1)} {
		if _, err := s.Set("a", v, now); !errors.Is(err, fault.Usage) || len(v) > 6 && strings.Contains(err.Error(), v) {
			t.Errorf("%s: %v", what, err)
		}
	}
	set(t, s, "github-ci_2", strings.Repeat("x", secret.MaxValue))
}

func TestWhatCannotBeReadIsAnError(t *testing.T) {
	tests := map[string]struct {
		spoil func(t *testing.T, dir string)
		want  string
	}{
		"the key is gone":    {func(t *testing.T, dir string) { must(t, os.Remove(filepath.Join(dir, "keys/secrets.key"))) }, "key of secrets.age"},
		"others can read it": {func(t *testing.T, dir string) { must(t, os.Chmod(filepath.Join(dir, "keys/secrets.key"), 0o640)) }, "read by others"},
		"the key is no key": {func(t *testing.T, dir string) {
			must(t, os.WriteFile(filepath.Join(dir, "keys/secrets.key"), []byte("AGE-SECRET-KEY-1X"), 0o600))
		}, "no age identity"},
		"the file is damaged": {func(t *testing.T, dir string) {
			name := filepath.Join(dir, "secrets.age")
			b, err := os.ReadFile(name)
			must(t, err)
			b[len(b)-1] ^= 1
			must(t, os.WriteFile(name, b, 0o600))
		}, "damaged"},
		"the file is cut off": {func(t *testing.T, dir string) { must(t, os.Truncate(filepath.Join(dir, "secrets.age"), 40)) }, "cannot be decrypted"},
		"another's key": {func(t *testing.T, dir string) {
			other := t.TempDir()
			set(t, secret.Open(other, nil), "x", value)
			b, err := os.ReadFile(filepath.Join(other, "keys/secrets.key"))
			must(t, err)
			must(t, os.WriteFile(filepath.Join(dir, "keys/secrets.key"), b, 0o600))
		}, "cannot be decrypted"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			s := secret.Open(dir, nil)
			set(t, s, "github", value)
			tc.spoil(t, dir)
			before, err := os.ReadFile(filepath.Join(dir, "secrets.age"))
			must(t, err)
			if _, err := s.All(); !errors.Is(err, fault.StoreFailed) || !strings.Contains(err.Error(), tc.want) || strings.Contains(err.Error(), value) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
			if _, err := s.Set("npm", value, now); !errors.Is(err, fault.StoreFailed) {
				t.Errorf("set: %v", err)
			}
			if after, err := os.ReadFile(filepath.Join(dir, "secrets.age")); err != nil || !bytes.Equal(before, after) {
				t.Errorf("the file was replaced: %v", err)
			}
		})
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestTheKeyringIsUsedWhereItWorks(t *testing.T) {
	dir := t.TempDir()
	r := &ring{kept: map[string]string{}}
	s := secret.Open(dir, r)
	if e := set(t, s, "github", value); e.In != secret.Keyring || r.kept["github"] != value {
		t.Errorf("%+v", e)
	}
	if v, err := s.Get("github"); v != value || err != nil {
		t.Errorf("%q, %v", v, err)
	}
	r.fail = errors.New("locked")
	if _, err := s.All(); !errors.Is(err, fault.StoreFailed) {
		t.Errorf("locked: %v", err)
	}
	if _, err := secret.Open(dir, nil).Get("github"); !errors.Is(err, fault.StoreFailed) {
		t.Errorf("no keyring: %v", err)
	}
	if err := s.Remove("github"); !errors.Is(err, fault.StoreFailed) {
		t.Errorf("removed from a locked keyring: %v", err)
	}
	if e := set(t, s, "github", "another-value"); e.In != secret.File {
		t.Errorf("%+v", e)
	}
	if v, err := s.Get("github"); v != "another-value" || err != nil {
		t.Errorf("%q, %v", v, err)
	}
}

func TestTheSystemsKeyring(t *testing.T) {
	bus := func(string) (string, bool) { return "unix:path=/nowhere", true }
	if secret.System("/h", func(string) (string, bool) { return "", false }) != nil && runtime.GOOS == "linux" {
		t.Error("a keyring without a bus")
	}
	keyring.MockInit()
	r := secret.System("/h", bus)
	must(t, r.Set("a", value))
	if v, err := r.Get("a"); v != value || err != nil {
		t.Errorf("%q, %v", v, err)
	}
	if v, err := secret.System("/other", bus).Get("a"); err == nil {
		t.Errorf("another home has it too: %q", v)
	}
	must(t, r.Remove("a"))
	must(t, r.Remove("a"))
	keyring.MockInitWithError(errors.New("broken"))
	if r.Set("a", value) == nil || r.Remove("a") == nil {
		t.Error("a broken keyring works")
	}
}

func TestWritersDoNotLoseEachOthersValues(t *testing.T) {
	dir := t.TempDir()
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			if _, err := secret.Open(dir, nil).Set(fmt.Sprintf("n%d", i), value, now); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if all, err := secret.Open(dir, nil).All(); err != nil || len(all) != 8 {
		t.Errorf("%d kept, %v", len(all), err)
	}
}
