package servers_test

import (
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/call/catalog"
	"github.com/remitrun/remit/internal/service/home"
	"github.com/remitrun/remit/internal/service/servers"
)

// toolMemory is what a process with this home remembers of tools.
func toolMemory(dir string) catalog.Memory {
	return servers.Memory(&home.Home{Config: home.Config{Dir: dir}})
}

const source = "mcp:a/b"

func load(t *testing.T, m catalog.Memory) map[tool.ID]catalog.Record {
	t.Helper()
	r, err := m.Load(source)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func accept(id tool.ID, digest string) func(map[tool.ID]catalog.Record) bool {
	return func(m map[tool.ID]catalog.Record) bool {
		if m[id].Accepted != nil {
			return false
		}
		m[id] = catalog.Record{Accepted: &catalog.Version{Digest: digest, Input: []byte(`{"a":1}`), Effects: []tool.Effect{tool.FSRead}}}
		return true
	}
}

func TestWhatIsRememberedOutlivesTheProcess(t *testing.T) {
	dir := t.TempDir()
	m := toolMemory(dir)
	if len(load(t, m)) != 0 {
		t.Fatal("something is remembered from nowhere")
	}
	if err := m.Change(source, accept("x", "one")); err != nil {
		t.Fatal(err)
	}
	again := toolMemory(dir)
	got := load(t, again)["x"].Accepted
	if got == nil || got.Digest != "one" || string(got.Input) == "" || len(got.Effects) != 1 || got.Effects[0] != tool.FSRead {
		t.Fatalf("remembered is %+v", got)
	}
	if err := again.Change(source, func(r map[tool.ID]catalog.Record) bool { delete(r, "x"); return true }); err != nil {
		t.Fatal(err)
	}
	if len(load(t, m)) != 0 {
		t.Fatal("what another process changed is not seen")
	}
	other, err := m.Load("mcp:b")
	if err != nil || len(other) != 0 {
		t.Fatalf("another source has %v, %v", other, err)
	}
	files, err := filepath.Glob(filepath.Join(dir, "tools", "*.json"))
	if err != nil || len(files) != 1 || filepath.Base(files[0]) != "mcp:a%2Fb.json" {
		t.Fatalf("the files are %v, %v", files, err)
	}
	if st, err := os.Stat(files[0]); err != nil || st.Mode().Perm() != 0o600 {
		t.Fatalf("%v, %v", st.Mode(), err)
	}
}

func TestOneOfManyPins(t *testing.T) {
	dir := t.TempDir()
	var all sync.WaitGroup
	for i := range 16 {
		m := toolMemory(dir) // as a process of its own
		all.Go(func() {
			if err := m.Change(source, accept("x", string(rune('a'+i)))); err != nil {
				t.Error(err)
			}
			if err := m.Change(source, accept(tool.ID(rune('a'+i)), "own")); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if got := load(t, toolMemory(dir)); len(got) != 17 {
		t.Fatalf("%d tools are remembered, want 17: something was lost", len(got))
	}
}

func TestWhatCannotBeReadIsAnError(t *testing.T) {
	dir := t.TempDir()
	m := toolMemory(dir)
	if err := m.Change(source, accept("x", "one")); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "tools", "mcp:a%2Fb.json")
	for _, bad := range []struct {
		name  string
		spoil func() error
	}{
		{"cut off", func() error { return os.WriteFile(file, []byte(`{"x": {`), 0o600) }},
		{"a folder", func() error { return errors.Join(os.Remove(file), os.Mkdir(file, 0o700)) }},
	} {
		if err := bad.spoil(); err != nil {
			t.Fatal(err)
		}
		if _, err := m.Load(source); !errors.Is(err, fault.StoreFailed) {
			t.Errorf("%s: loading gives %v", bad.name, err)
		}
		if err := m.Change(source, accept("y", "two")); !errors.Is(err, fault.StoreFailed) {
			t.Errorf("%s: changing gives %v", bad.name, err)
		}
	}
}
