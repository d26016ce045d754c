package files_test

import (
	"encoding/json"
	"errors"
	"os"
	"path"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/remitrun/remit/internal/authority/permit/permittest"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/confine/files"
)

// thirdParty reads a file of cases that are not part of the project.
func thirdParty(t *testing.T, name string) []byte {
	t.Helper()
	dir := os.Getenv("REMIT_TESTDATA")
	if dir == "" {
		t.Skip("REMIT_TESTDATA names no folder with third-party cases")
	}
	b, err := os.ReadFile(filepath.Join(dir, name))
	must(t, err)
	return b
}

type rootCase struct {
	Name   string
	FS     []string
	Open   string
	Target string
	Want   string
	Setup  bool `json:"needs_setup_func"`
}

// lexical lists the cases where ".." follows a symbolic link: our paths are
// cleaned before they are looked up, so another file is meant, inside as well.
var lexical = map[string]bool{"dotdot after symlink": true, "dotdot in path after symlink": true}

func TestOSRootCases(t *testing.T) {
	var doc struct{ Cases []rootCase }
	must(t, json.Unmarshal(thirdParty(t, "paths/os_root_cases.json"), &doc))
	for _, tc := range doc.Cases {
		t.Run(tc.Name, func(t *testing.T) {
			l := newPlace(t, everything)
			l.ws = renamed(t, l)
			l.build(t, tc)
			l.f = files.New(permittest.PermitFor(t, l.ws, everything))
			b, rerr := l.f.ReadAll(tc.Open)
			switch {
			case lexical[tc.Name]:
				wantCode(t, rerr, fault.NotFound)
			case tc.Want == "ok":
				must(t, rerr)
				if string(b) != "target" {
					t.Errorf("read %q", b)
				}
				_, err := l.f.Write(tc.Open, []byte("new"), files.WriteOptions{Mode: files.Replace})
				must(t, err)
			case tc.Want == "error":
				_, werr := l.f.Write(tc.Open, []byte("new"), files.WriteOptions{Mode: files.Replace})
				if rerr == nil || werr == nil {
					t.Errorf("read: %v, write: %v; want errors", rerr, werr)
				}
			default:
				_, plain := os.Stat(l.ws + "/" + tc.Open)
				_, err := l.f.Stat(tc.Open)
				if (plain == nil) != (err == nil) {
					t.Errorf("plain: %v, ours: %v", plain, err)
				}
			}
			l.outsideIs(t)
		})
	}
}

func renamed(t *testing.T, l place) string {
	t.Helper()
	to := filepath.Join(filepath.Dir(l.ws), "ROOT")
	must(t, os.Rename(l.ws, to))
	return to
}

func (l place) build(t *testing.T, tc rootCase) {
	t.Helper()
	for _, spec := range tc.FS {
		spec = strings.ReplaceAll(spec, "$ABS", l.ws)
		if name, to, ok := strings.Cut(spec, " => "); ok {
			l.link(t, name, to)
		} else if strings.HasSuffix(spec, "/") {
			must(t, os.MkdirAll(filepath.Join(l.ws, spec), 0o755))
		} else {
			l.put(t, spec, spec)
		}
	}
	if tc.Target != "" {
		if i, err := os.Stat(filepath.Join(l.ws, tc.Target)); err != nil || !i.IsDir() {
			l.put(t, tc.Target, "target")
		}
	}
	if strings.HasPrefix(tc.Name, "unix domain socket") {
		fd, err := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
		must(t, err)
		must(t, syscall.Bind(fd, &syscall.SockaddrUnix{Name: filepath.Join(l.ws, "a")}), syscall.Close(fd))
	}
	if tc.Name == "unreadable directory" {
		dir := filepath.Join(l.ws, "dir")
		must(t, os.Chmod(dir, 0))
		t.Cleanup(func() { _ = os.Chmod(dir, 0o755) })
	}
}

func TestTraversalPayloads(t *testing.T) {
	rows := strings.Split(strings.TrimSpace(string(thirdParty(t, "paths/traversal_payloads_dev_sample.tsv"))), "\n")[1:]
	l := newPlace(t, everything)
	refused, inside := 0, 0
	for _, row := range rows {
		cols := strings.Split(row, "\t")
		var payload string
		must(t, json.Unmarshal([]byte(cols[0]), &payload))
		_, rerr := l.f.ReadAll(payload)
		_, werr := l.f.Write(payload, []byte("written"), files.WriteOptions{Parents: true})
		if cols[1] == "deny" {
			if !denied(rerr) || !denied(werr) {
				t.Errorf("%.80q: read: %v, write: %v", payload, rerr, werr)
			}
			continue
		}
		switch {
		case errors.Is(rerr, fault.NotFound) && werr == nil:
			inside++
			want := filepath.Join(l.ws, path.Clean("/"+payload))
			if b, err := os.ReadFile(want); err != nil || string(b) != "written" {
				t.Errorf("%.80q is not at %.80q: %v", payload, want, err)
			}
			must(t, l.f.Remove(payload))
		case denied(rerr) && denied(werr), errors.Is(werr, fault.NotFound):
			refused++
			t.Logf("refused though contained: %.80q: %v", payload, werr)
		default:
			t.Errorf("%.80q: read: %v, write: %v", payload, rerr, werr)
		}
		l.outsideIs(t)
	}
	t.Logf("%d payloads, %d plain names, %d of the contained refused", len(rows), inside, refused)
	if refused*50 > len(rows) {
		t.Errorf("%d plain names were refused", refused)
	}
}

func denied(err error) bool {
	return errors.Is(err, fault.HandleRefused) || errors.Is(err, fault.ArgsInvalid)
}

func TestIsLocal(t *testing.T) {
	var doc struct {
		Local []struct {
			Path  string
			Local bool
		} `json:"is_local"`
		Zip []string `json:"insecure_zip_names"`
		Tar []string `json:"insecure_tar_names"`
	}
	must(t, json.Unmarshal(thirdParty(t, "paths/archive_and_islocal.json"), &doc))
	env := tool.Env{Workspace: "/w/s"}
	for _, tc := range doc.Local {
		got, err := files.Clean(env, tc.Path)
		if local := err == nil && (got == env.Workspace || strings.HasPrefix(got, env.Workspace+"/")); local != tc.Local {
			t.Errorf("Clean(%q) = %q, %v; local: %v", tc.Path, got, err, tc.Local)
		}
	}
}

func TestCapsulePathCases(t *testing.T) {
	var doc struct {
		Cases []struct {
			ID, Group, Tool, Expect string
			Args                    json.RawMessage
			Policy                  json.RawMessage
			Setup                   struct{ Symlinks, Files map[string]string }
		}
	}
	must(t, json.Unmarshal(thirdParty(t, "policy/capsule_security_cases.json"), &doc))
	groups := map[string]bool{"path": true, "symlink": true, "write": true, "deny_precedence": true}
	for _, tc := range doc.Cases {
		if !groups[tc.Group] {
			continue
		}
		t.Run(tc.ID, func(t *testing.T) {
			var args struct{ Path, Content string }
			var sections map[string]struct {
				Allow  []string `json:"allow_paths"`
				Deny   []string `json:"deny_paths"`
				Hidden bool     `json:"allow_hidden"`
			}
			must(t, json.Unmarshal(tc.Args, &args), json.Unmarshal(tc.Policy, &sections))
			text := "version: 1\nname: capsule\nfiles:\n"
			for section, name := range map[string]string{"read": "fs.read", "write": "fs.write"} {
				p := sections[name]
				for i := range p.Allow {
					p.Allow[i] = strings.TrimPrefix(p.Allow[i], "$W/")
				}
				for i := range p.Deny {
					p.Deny[i] = strings.TrimPrefix(p.Deny[i], "$W/")
				}
				if !p.Hidden {
					p.Deny = append(p.Deny, "**/.*", "**/.*/**")
				}
				allow, err := json.Marshal(append([]string{}, p.Allow...))
				must(t, err)
				deny, err := json.Marshal(append([]string{}, p.Deny...))
				must(t, err)
				text += "  " + section + ": {allow: " + string(allow) + ", deny: " + string(deny) + "}\n"
			}
			l := newPlace(t, text)
			name := strings.ReplaceAll(args.Path, "$W", l.ws)
			for n, to := range tc.Setup.Symlinks {
				l.link(t, n, to)
			}
			for n, content := range tc.Setup.Files {
				l.put(t, n, content)
			}
			if len(tc.Setup.Symlinks) == 0 && !strings.HasPrefix(path.Clean(args.Path), "..") {
				if rel := strings.TrimPrefix(args.Path, "$W/"); !path.IsAbs(rel) && tc.Tool == "fs.read" {
					l.put(t, rel, "there") // so that a refusal is not for lack of a file
				}
			}
			var err error
			if tc.Tool == "fs.write" {
				_, err = l.f.Write(name, []byte(args.Content), files.WriteOptions{Mode: files.Replace})
			} else {
				_, err = l.f.ReadAll(name)
			}
			if ok := err == nil; ok && tc.Expect == "deny" || !ok && tc.Expect == "allow" || tc.Expect == "deny" && !denied(err) {
				t.Errorf("%s %q: %v, want %s", tc.Tool, name, err, tc.Expect)
			}
		})
	}
}
