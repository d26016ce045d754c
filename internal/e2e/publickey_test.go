package e2e_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// keyDamage is a state of $REMIT_HOME/keys/ledger.pub.
type keyDamage struct {
	damage   func(file string, right []byte) error
	readOnly bool     // $REMIT_HOME is mounted read-only
	enter    []string // the command that runs remit
	stays    string   // what a message says of a file that Remit cannot repair; "": it can
	fits     bool     // the file has the right content
}

// keyDamages are the states that are tested, by name.
func keyDamages(t *testing.T, foreignKey string) map[string]keyDamage {
	put := func(content func(right []byte) string) func(string, []byte) error {
		return func(file string, right []byte) error { return os.WriteFile(file, []byte(content(right)), 0o600) }
	}
	remove := func(file string, _ []byte) error { return os.Remove(file) }
	link := func(content func(right []byte) string) func(string, []byte) error {
		return func(file string, right []byte) error {
			to := filepath.Join(filepath.Dir(filepath.Dir(file)), "linked.pub")
			return errors.Join(os.Remove(file), os.WriteFile(to, []byte(content(right)), 0o600), os.Symlink(to, file))
		}
	}
	foreign := func([]byte) string { return foreignKey }
	out := map[string]keyDamage{
		"right":   {damage: func(string, []byte) error { return nil }, fits: true},
		"missing": {damage: remove},
		"empty":   {damage: put(func([]byte) string { return "" })},
		"a line":  {damage: put(func([]byte) string { return "\n" })},
		"truncated": {damage: put(func(right []byte) string {
			return string(right[:len(right)/2])
		})},
		"foreign": {damage: put(foreign)},
		"a foreign name": {damage: put(func(right []byte) string {
			_, rest, _ := strings.Cut(string(right), "+")
			return "remit.local/another+" + rest
		})},
		"an empty folder": {damage: func(file string, _ []byte) error { return errors.Join(os.Remove(file), os.Mkdir(file, 0o700)) }},
		"a folder": {damage: func(file string, _ []byte) error {
			return errors.Join(os.Remove(file), os.MkdirAll(filepath.Join(file, "x"), 0o700))
		}, stays: "is not a regular file, and cannot be repaired"},
		"a link to the right key":   {damage: link(func(right []byte) string { return string(right) }), fits: true},
		"a link to a foreign key":   {damage: link(foreign)},
		"a link to a missing file":  {damage: func(file string, _ []byte) error { return errors.Join(os.Remove(file), os.Symlink("nowhere", file)) }},
		"unreadable":                {damage: func(file string, _ []byte) error { return os.Chmod(file, 0) }},
		"missing, read-only home":   {damage: remove, readOnly: true, stays: "is missing, and this process may not repair it"},
		"foreign, read-only home":   {damage: put(foreign), readOnly: true, stays: "does not belong to the ledger's signing key, and this process may not repair it"},
		"right, but read-only home": {damage: func(string, []byte) error { return nil }, readOnly: true, fits: true},
	}
	if os.Getuid() == 0 { // root can read every file, unless it is nobody in particular in a namespace of its own
		one, in := out["unreadable"], []string{"unshare", "--user", "--map-user=1000", "--map-group=1000"}
		if exec.Command(in[0], append(in[1:], "true")...).Run() != nil {
			delete(out, "unreadable")
		} else {
			one.enter = in
			out["unreadable"] = one
		}
	}
	mount := []string{"unshare", "--mount", "sh", "-c", `mount --bind "$0" "$0" && mount -o remount,bind,ro "$0" && exec "$@"`}
	if os.Getuid() != 0 {
		mount = append([]string{"unshare", "--map-root-user"}, mount[1:]...)
	}
	folder := t.TempDir()
	for name, one := range out {
		if !one.readOnly {
			continue
		}
		if exec.Command(mount[0], append(mount[1:], folder, "true")...).Run() != nil {
			delete(out, name)
			continue
		}
		one.enter = mount
		out[name] = one
	}
	return out
}

// keyWorld is a copy of a ledger with one run, whose public key file has a state.
type keyWorld struct {
	*world
	keyDamage
	file   string
	right  []byte
	policy string
	plan   string
}

// enters runs remit as the state of the file needs it.
func (w *keyWorld) enters(stdin string, args ...string) result {
	w.t.Helper()
	c := w.command(args...)
	line := append([]string{}, w.enter...)
	if w.readOnly {
		line = append(line, w.home)
	}
	if line = append(line, c.Args...); len(w.enter) > 0 {
		c.Path, c.Args = valueOf(exec.LookPath(line[0])), line
	}
	var out, errs bytes.Buffer
	c.Stdin, c.Stdout, c.Stderr = strings.NewReader(stdin), &out, &errs
	if err := c.Run(); err != nil && !errors.As(err, new(*exec.ExitError)) {
		w.t.Fatal(err)
	}
	return result{out.String(), errs.String(), c.ProcessState.ExitCode()}
}

func valueOf[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// keyCommands are the commands that are tested. Each gets the status that it has with the right file.
var keyCommands = map[string]struct {
	do    func(w *keyWorld) result
	tells bool // of a file that it may not repair
	signs bool // with another key
}{
	"verify":      {do: func(w *keyWorld) result { return w.enters("", "verify") }, tells: true},
	"keys":        {do: func(w *keyWorld) result { return w.enters("", "keys") }, tells: true},
	"keys rotate": {do: func(w *keyWorld) result { return w.enters("", "keys", "rotate", "ledger") }, signs: true},
	"keys rotate twice": {do: func(w *keyWorld) result {
		w.enters("", "keys", "rotate", "ledger")
		return w.enters("", "keys", "rotate", "ledger")
	}, signs: true},
	"run": {do: func(w *keyWorld) result { return w.enters("", "run", w.plan, "-p", w.policy, "-w", w.workspace) }},
	"hook": {do: func(w *keyWorld) result {
		return w.enters(`{"event":"before","session":"s","tool":"fs.write","args":{"path":"b.txt","content":"x"}}`, "hook", "generic", "-w", w.workspace, "-p", w.policy)
	}},
	"report": {do: func(w *keyWorld) result { return w.enters("", "report", "last", "--format", "json") }},
	"proof":  {do: func(w *keyWorld) result { return w.enters("", "verify", "--proof", "last") }},
	"serve": {do: func(w *keyWorld) result {
		s := w.serveAgents(w.policy)
		s.end()
		return result{}
	}},
}

// A public key file that is not the ledger's is noticed by every command, and written anew from
// the signing key. Where that cannot be done, commands work, and those that show keys say what is wrong.
func TestAWrongPublicKeyIsNoticedAndRepaired(t *testing.T) {
	from := newWorld(t).durability("process")
	policy := from.beside("policy.yaml", "version: 1\nfiles: {write: {allow: ['**']}}\n")
	plan := from.plan("p", 1, call{Tool: "fs.write", Args: map[string]any{"path": "a.txt", "content": "x"}})
	from.must(0, "run", plan, "-p", policy, "-w", from.workspace)
	another := newWorld(t)
	another.must(0, "run", plan, "-p", policy, "-w", from.workspace)
	foreign := filepath.Join(another.home, "keys", "ledger.pub")
	right := valueOf(os.ReadFile(filepath.Join(from.home, "keys", "ledger.pub")))
	for state, d := range keyDamages(t, string(valueOf(os.ReadFile(foreign)))) {
		for name, c := range keyCommands {
			if !soak() && state != "foreign" && state != "a folder" && name != "verify" || name == "serve" && d.enter != nil {
				continue
			}
			t.Run(state+"/"+name, func(t *testing.T) {
				w := &keyWorld{world: newWorld(t), keyDamage: d, right: right, policy: policy, plan: plan}
				if out, err := exec.Command("cp", "-a", from.home+"/.", w.home).CombinedOutput(); err != nil {
					t.Fatalf("%v: %s", err, out)
				}
				w.file = filepath.Join(w.home, "keys", "ledger.pub")
				want := c.do(&keyWorld{world: w.world, keyDamage: keyDamage{readOnly: d.readOnly, enter: d.enter}, policy: policy, plan: plan})
				if out, err := exec.Command("sh", "-c", `rm -rf "$1" && cp -a "$0" "$1"`, from.home, w.home).CombinedOutput(); err != nil {
					t.Fatalf("%v: %s", err, out)
				}
				if err := d.damage(w.file, right); err != nil {
					t.Fatal(err)
				}
				got := c.do(w)
				if got.status != want.status {
					t.Errorf("status %d, with the right file %d\n%s%s", got.status, want.status, got.out, got.err)
				}
				w.checkFile(c.signs && want.status == 0)
				w.checkTold(c.tells, got)
				proof := w.beside("proof.json", w.must(0, "verify", "--proof", "last"))
				if d.stays == "" {
					w.must(0, "verify", "--check-proof", proof, "--key", w.file)
				}
				w.must(4, "verify", "--check-proof", proof, "--key", foreign)
				w.must(0, "verify")
			})
		}
	}
}

// checkFile checks the file after a command.
func (w *keyWorld) checkFile(rotated bool) {
	w.t.Helper()
	if w.stays != "" {
		return
	}
	got, err := os.ReadFile(w.file)
	if err != nil || !rotated && string(got) != string(w.right) {
		w.t.Errorf("the file is %q, %v", got, err)
	}
	if rotated {
		var list struct {
			Items []struct{ Of, State, Public string }
		}
		if err := json.Unmarshal([]byte(w.must(0, "keys", "--json")), &list); err != nil {
			w.t.Fatal(err)
		}
		signs := ""
		for _, k := range list.Items {
			if k.Of == "ledger" && k.State == "signs" {
				signs = k.Public
			}
		}
		if strings.TrimSpace(string(got)) != signs || string(got) == string(w.right) {
			w.t.Errorf("the file is %q, and %q signs", got, signs)
		}
	}
}

// checkTold checks the notice of a wrong file: in the log, and in the output of a command that
// shows keys.
func (w *keyWorld) checkTold(tells bool, r result) {
	w.t.Helper()
	log := ""
	for _, f := range valueOf(filepath.Glob(filepath.Join(w.home, "logs", "*"))) {
		log += string(valueOf(os.ReadFile(f)))
	}
	repaired, wrong := strings.Count(log, "public_key_repaired"), strings.Count(log, "public_key_wrong")
	if want := !w.fits && w.stays == ""; want != (repaired == 1) || repaired > 1 {
		w.t.Errorf("the log has %d repairs:\n%s", repaired, log)
	}
	if w.stays == "" && wrong > 0 || w.stays != "" && !w.readOnly && wrong == 0 {
		w.t.Errorf("the log has %d errors:\n%s", wrong, log)
	}
	if tells && w.stays != "" && (!strings.Contains(r.out, w.stays) || !strings.Contains(r.out, "its content must be "+strings.TrimSpace(string(w.right)))) {
		w.t.Errorf("it says\n%s", r.out)
	}
}

// A signing key that is encrypted, missing or of another ledger is named, and a public key that is right
// is not replaced by one that belongs to it.
func TestAWrongSigningKeyIsNamed(t *testing.T) {
	from, other := newWorld(t).durability("process"), newWorld(t).durability("process")
	policy := from.beside("policy.yaml", "version: 1\nfiles: {write: {allow: ['**']}}\n")
	plan := from.plan("p", 1, call{Tool: "fs.write", Args: map[string]any{"path": "a.txt", "content": "x"}})
	for _, w := range []*world{from, other} {
		w.must(0, "run", plan, "-p", policy, "-w", from.workspace)
	}
	key := filepath.Join(from.home, "keys", "ledger.key")
	right, public := valueOf(os.ReadFile(key)), valueOf(os.ReadFile(filepath.Join(from.home, "keys", "ledger.pub")))
	for name, tt := range map[string]struct {
		content string // "": the file is missing
		says    string
	}{
		"age":     {"age-encryption.org/v1\n-> X25519 abc\n", "is encrypted"},
		"armour":  {"-----BEGIN AGE ENCRYPTED FILE-----\n", "is encrypted"},
		"openssl": {"Salted__12345678", "is encrypted"},
		"ansible": {"$ANSIBLE_VAULT;1.1;AES256\n", "is encrypted"},
		"sops":    {`{"data": "ENC[AES256_GCM,data:abc]"}`, "is encrypted"},
		"missing": {"", "is missing"},
		"foreign": {string(valueOf(os.ReadFile(filepath.Join(other.home, "keys", "ledger.key")))), "put the key that belongs to it into the folder keys"},
	} {
		t.Run(name, func(t *testing.T) {
			err := os.Remove(key)
			if tt.content != "" {
				err = os.WriteFile(key, []byte(tt.content), 0o600)
			}
			if err != nil {
				t.Fatal(err)
			}
			for _, args := range [][]string{{"verify"}, {"keys"}, {"keys", "rotate", "ledger"}, {"run", plan, "-p", policy, "-w", from.workspace}} {
				if r := from.remit(args...); r.status == 0 && args[0] != "keys" || !strings.Contains(r.out+r.err, tt.says) {
					t.Errorf("%v: status %d\n%s%s", args, r.status, r.out, r.err)
				}
			}
			if b := valueOf(os.ReadFile(filepath.Join(from.home, "keys", "ledger.pub"))); string(b) != string(public) {
				t.Errorf("the public key became %q", b)
			}
			if err := os.WriteFile(key, right, 0o600); err != nil {
				t.Fatal(err)
			}
			from.must(0, "verify")
		})
	}
}
