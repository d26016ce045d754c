package e2e_test

import (
	"archive/zip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// bundleManifest is that of a bundle with a server that reads a file.
const bundleManifest = `{"manifest_version": "0.3", "name": "tiny", "version": "1.0.0",
	"server": {"type": "python", "entry_point": "main.py", "mcp_config": {"command": "python", "args": ["${__dirname}/main.py"], "env": {"KEY": "${user_config.key}"}}},
	"user_config": {"key": {"type": "string", "title": "Key", "sensitive": true, "required": true}}}`

// mcp add that is killed, at each file that it makes, leaves the whole server or none. The next
// one works in any case, and clears away what the killed one left.
func TestAKilledAddLeavesTheWholeServerOrNone(t *testing.T) {
	if _, err := exec.LookPath("python3"); err != nil {
		missing(t, "python3 is not installed")
	}
	w := newWorld(t).durability("process")
	if !w.confines() {
		missing(t, "this machine cannot confine")
	}
	file, err := os.Create(w.beside("tiny.mcpb", ""))
	if err != nil {
		t.Fatal(err)
	}
	z := zip.NewWriter(file)
	for name, text := range map[string]string{"manifest.json": bundleManifest, "main.py": tinyPython + "main()\n"} {
		f, err := z.Create(name)
		if err == nil {
			_, err = f.Write([]byte(text))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	add := []string{"mcp", "add", "tiny", "--bundle", file.Name(), "--input", "key=the-secret-value"}
	for _, moment := range []string{w.home + "-packages/.unpack-*", w.home + "-packages/.new-*", w.home + "/packages/*.json", w.home + "/secrets*", w.home + "/mcp.json"} {
		c := w.start(append(add, "--replace")...)
		ended := make(chan struct{})
		go func() { _ = c.Wait(); close(ended) }()
		for over := false; !over; {
			found, _ := filepath.Glob(moment)
			select {
			case <-ended:
				over = true
			default:
				over = len(found) > 0
				time.Sleep(100 * time.Microsecond)
			}
		}
		_ = c.Process.Kill()
		<-ended
		list := w.must(0, "mcp", "list")
		if there := strings.Contains(list, "tiny"); there {
			w.must(0, "mcp", "test", "tiny")
		} else if res := w.remit("mcp", "test", "tiny"); res.status == 0 {
			t.Errorf("%s: the server is half there: %+v", moment, res)
		}
		w.must(0, append(add, "--replace")...)
		if left, _ := filepath.Glob(w.home + "-packages/.*"); len(left) > 0 {
			t.Errorf("%s: left: %v", moment, left)
		}
		w.must(0, "mcp", "remove", "tiny")
		for _, made := range []string{w.home + "-packages", w.home + "/packages", w.home + "/mcp.json"} {
			if err := os.RemoveAll(made); err != nil { // so that each round begins with nothing
				t.Fatal(err)
			}
		}
	}
	w.must(0, "verify")
}
