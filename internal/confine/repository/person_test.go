package repository_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/remitrun/remit/internal/confine/repository"
)

// TestPersonalSettingsAreGits: Git reads the same from the settings for a command as from the person's own files, and
// from none of them a secret or a program.
func TestPersonalSettingsAreGits(t *testing.T) {
	if _, err := exec.LookPath("git"); err != nil {
		t.Skipf("NOT TESTED: %v", err)
	}
	home, err := filepath.EvalSymlinks(t.TempDir())
	must(t, err)
	write := func(name, text string) {
		must(t, os.MkdirAll(filepath.Dir(filepath.Join(home, name)), 0o755))
		must(t, os.WriteFile(filepath.Join(home, name), []byte(text), 0o600))
	}
	write(".config/git/config", "[user]\n\tname = from xdg\n\temail = xdg@a.test\n[init]\n\tdefaultBranch = trunk\n[include]\n\tpath = more\n")
	write(".config/git/more", "[pull]\n\trebase\n[alias]\n\tlast = log -1 \"--format=%s # no \\\"comment\\\"\"\n\tsteal = !cat x\n\tsneak = -c http.extraheader=SECRET push\n\tmail = send-email --smtp-pass=SECRET\n\tto = push https://u:SECRET@h.test/r\n")
	write(".gitconfig", "[User]\n\tName = \"Ann  \\\\ O'Neil\"  ; a comment\n[http]\n\textraheader = SECRET\n[http \"https://h.test\"]\n\tproxy = http://u:SECRET@p.test\n"+
		"[core]\n\tpager = SECRET\n\tautocrlf = input\n\tsshCommand = SECRET\n[url \"https://SECRET@h.test/\"]\n\tinsteadOf = h:\n[credential]\n\thelper = SECRET\n"+
		"[includeIf \"gitdir:~/work/\"]\n\tpath = ~/work.inc\n[includeIf \"gitdir/i:OTHER/\"]\n\tpath = other.inc\n[includeIf \"onbranch:main\"]\n\tpath = branch.inc\n")
	write("work.inc", "[user]\n\temail = work@a.test\n")
	write("other.inc", "[user]\n\temail = other@a.test\n")
	for _, repo := range []string{"work/a", "work/deep/b", "other/c", "elsewhere/d", "none"} {
		dir := filepath.Join(home, repo)
		must(t, os.MkdirAll(dir+"/in", 0o755))
		git := func(args ...string) string {
			cmd := exec.Command("git", args...)
			cmd.Dir, cmd.Env = dir+"/in", []string{"HOME=" + home, "GIT_CONFIG_NOSYSTEM=1", "PATH=" + os.Getenv("PATH"), "GIT_CEILING_DIRECTORIES=" + home}
			out, _ := cmd.Output() // a setting that is not there is an error
			return string(out)
		}
		if repo != "none" {
			git("init", "-q", "..")
		}
		got := repository.Personal(home, "", "", dir+"/in")
		if strings.Contains(got, "SECRET") || strings.Contains(got, "cat x") {
			t.Errorf("%s: a secret or a program is in %s", repo, got)
		}
		file := filepath.Join(home, "got")
		must(t, os.WriteFile(file, []byte(got), 0o600))
		for _, key := range strings.Fields("user.name user.email init.defaultBranch pull.rebase alias.last core.autocrlf") {
			kind := "--no-type"
			if key == "pull.rebase" { // it has no value
				kind = "--bool"
			}
			if want, have := git("config", kind, "--get", key), git("config", "--file", file, kind, "--get", key); have != want || want == "" {
				t.Errorf("%s: %s is %q, want %q", repo, key, have, want)
			}
		}
	}
	if got := repository.Personal("", "", "", home); got != "" {
		t.Errorf("without a home folder: %q", got)
	}
}

// TestPersonalSettingsThatAreOdd: no file of settings makes Git refuse those for a command, and reading them ends.
func TestPersonalSettingsThatAreOdd(t *testing.T) {
	if _, err := exec.LookPath("git"); err != nil {
		t.Skipf("NOT TESTED: %v", err)
	}
	words := strings.Split("[user]|[User \"x\"]|[user \"\"]|[user.x]|[alias]|[include]|[include \"x\"]|[]|[user|]|\n|\n|\r\n|\r|=| = | |\t|name|na-me|1name|-name|st|log -1|!x|\"|\\|\\\n|\\n|\\x|\\\\|;|#|é|\xff|\x01|\x7f|\v|path = .gitconfig|name = Ann|\ufeff", "|")
	home := t.TempDir()
	own, got := filepath.Join(home, ".gitconfig"), filepath.Join(home, "got")
	rapid.Check(t, func(rt *rapid.T) {
		must(t, os.WriteFile(own, []byte("[user]\n"+strings.Join(rapid.SliceOfN(rapid.SampledFrom(words), 0, 20).Draw(rt, "words"), "")), 0o600))
		must(t, os.WriteFile(got, []byte(repository.Personal(home, "", "", home)), 0o600))
		cmd := exec.Command("git", "config", "--file", got, "--list")
		cmd.Dir, cmd.Env = home, []string{"HOME=" + home + "/none", "GIT_CONFIG_NOSYSTEM=1", "PATH=" + os.Getenv("PATH"), "GIT_CEILING_DIRECTORIES=" + home}
		if out, err := cmd.CombinedOutput(); err != nil {
			rt.Fatalf("Git says %s", out)
		}
	})
	must(t, os.WriteFile(own, []byte(strings.Repeat("[include]\n\tpath = .gitconfig\n", 1000)+"[user]\n\tname = Ann\n"), 0o600))
	if got := repository.Personal(home, "", "", home); !strings.Contains(got, "Ann") {
		t.Errorf("a file that includes itself gives %q", got)
	}
}

// TestSignaturesAreNotLost: where a person's Git signs, the settings for a command demand a signature too, in each way of saying it,
// and they demand none where it does not sign.
func TestSignaturesAreNotLost(t *testing.T) {
	const on = "[commit]\n\tgpgsign = true\n"
	for name, c := range map[string]struct {
		file, text, global string
		want               bool
	}{
		"global": {".gitconfig", on, "", true}, "xdg": {".config/git/config", on, "", true}, "off later": {".gitconfig", on + "[commit]\n\tgpgsign = false\n", "", false},
		"without a value": {".gitconfig", "[commit]\n\tGpgSign\n", "", true}, "another file": {"other", on, "other", true}, "another file instead": {".gitconfig", on, "none", false},
		"include": {".gitconfig", "[include]\n\tpath = inc\n", "", true}, "includeIf of the repository": {".gitconfig", "[includeIf \"gitdir:~/work/\"]\n\tpath = inc\n", "", true},
		"of one below it": {".gitconfig", "[includeIf \"gitdir:~/work/r/sub/\"]\n\tpath = inc\n", "", true}, "of another": {".gitconfig", "[includeIf \"gitdir:~/other/\"]\n\tpath = inc\n", "", false},
		"of a branch": {".gitconfig", "[includeIf \"onbranch:x\"]\n\tpath = inc\n", "", true}, "of a remote": {".gitconfig", "[includeIf \"hasconfig:remote.*.url:https://h.test/**\"]\n\tpath = inc\n", "", true},
		"off for a branch": {".gitconfig", on + "[includeIf \"onbranch:x\"]\n\tpath = off\n", "", true},
	} {
		home := t.TempDir()
		for file, text := range map[string]string{"inc": on, "off": "[commit]\n\tgpgsign = false\n", "work/r/.git/HEAD": "ref: refs/heads/main\n", "work/r/.git/config": "", c.file: c.text} {
			must(t, os.MkdirAll(filepath.Dir(filepath.Join(home, file)), 0o755))
			must(t, os.WriteFile(filepath.Join(home, file), []byte(text), 0o600))
		}
		if c.global != "" {
			c.global = filepath.Join(home, c.global)
		}
		got := filepath.Join(home, "got")
		must(t, os.WriteFile(got, []byte(repository.Personal(home, "", c.global, home+"/work/r")), 0o600))
		out, _ := exec.Command("git", "config", "--file", got, "--bool", "--get", "commit.gpgsign").Output() // a setting that is not there is an error
		if is := strings.TrimSpace(string(out)) == "true"; is != c.want {
			t.Errorf("%s: signs %v, want %v", name, is, c.want)
		}
	}
	for _, key := range []string{"commit.gpgsign", "tag.gpgsign", "tag.forcesignannotated", "push.gpgsign", "gpg.format", "user.signingkey"} {
		if section, name, _ := strings.Cut(key, "."); repository.IsPlain(section, name, "false") {
			t.Errorf("a command may set %s in a repository", key)
		}
	}
	for setting, want := range map[string]bool{
		"commit.gpgsign=true": true, "commit.gpgsign=false": false, "commit.gpgsign=": false, "commit.gpgsign=no": false, "core.pager=cat": true, "core.pager=less -FRX": true, "core.pager=less -r": false, "push.default=upstream": false, "core.pager=touch x": false,
		"core.pager=less; touch x": false, "core.pager=less -o x": false, "core.pager=./cat": false, "gc.auto=0": true, "gc.auto=x": false, "push.default=current": true, "push.default=matching": false,
		"advice.detachedhead=false": true, "advice.x=touch x": false, "submodule.recurse=true": false, "submodule.recurse=false": true, "rerere.enabled=true": false, "status.showuntrackedfiles=no": false,
		"gpg.format=ssh": false, "user.signingkey=x": false, "gc.pruneexpire=now": false,
	} {
		name, value, _ := strings.Cut(setting, "=")
		if section, key, _ := strings.Cut(name, "."); repository.IsPlain(section, key, value) != want {
			t.Errorf("a command may set %s in a repository: %v", setting, !want)
		}
	}
}

// TestKeysOfSignatures: a public SSH key stands for its file, and nothing else of a file is taken.
func TestKeysOfSignatures(t *testing.T) {
	home := t.TempDir()
	const key = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5"
	for file, text := range map[string]string{"k": "PRIVATE", "k.pub": key + " ann@a.test\n", "secret.pub": "password: SECRET\n"} {
		must(t, os.WriteFile(filepath.Join(home, file), []byte(text), 0o600))
	}
	for value, want := range map[string]string{"~/k.pub": "key::" + key, "~/k": "key::" + key, home + "/k.pub": "key::" + key, "~/secret.pub": "~/secret.pub", "~/none": "~/none", "ABCDEF12": "ABCDEF12", key: key} {
		must(t, os.WriteFile(filepath.Join(home, ".gitconfig"), []byte("[user]\n\tsigningKey = "+value+"\n"), 0o600))
		if got := repository.Personal(home, "", "", home); !strings.Contains(got, "signingkey = \""+want+"\"\n") || strings.Contains(got, "SECRET") {
			t.Errorf("%s gives %s", value, got)
		}
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
