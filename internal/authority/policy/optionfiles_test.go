package policy_test

import (
	"testing"

	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/authority/policy/command"
	"github.com/remitrun/remit/internal/base/tool"
)

// readers allows programs that read, and writes below out only.
const readers = `files: {read: {allow: ["**"]}, write: {allow: ["out/**"]}}
commands: {allow: ["awk **", "cat **", "column **", "comm **", "csplit **", "curl **", "date **", "diff **", "du **", "echo **", "file **", "find **", "git **", "grep **", "iconv **", "jq **", "less **", "ls **", "mktemp **", "patch **", "pr **", "ptx **",
  "rg **", "rm **", "sed **", "shuf **", "sort **", "split **", "tar **", "test **", "tree **", "tsort **", "uniq **", "unzip **", "wc **", "wget **", "xargs **", "xxd **", "yq **", "zip **", "zstd **"]}`

// scriptEffect decides a script by its actions alone.
func scriptEffect(t *testing.T, c policy.Chain, script string) (policy.Effect, string) {
	t.Helper()
	s, err := command.Script(script, tool.Env{Workspace: "/ws", Home: "/home/u", Path: []string{"/usr/bin", "/bin"}, AnyVariable: true}, "/ws", nil)
	if err != nil {
		return policy.Deny, err.Error()
	}
	effect, reason := policy.Allow, ""
	for _, a := range s.Actions {
		if d := c.DecideAction(a); d.Effect < effect {
			effect, reason = d.Effect, d.Reason
		}
	}
	return effect, reason
}

// Everyday commands that name protected files without reading them, and options beside harmless files.
func TestEverydayCommandsStayAllowed(t *testing.T) {
	c := chain(t, readers)
	for _, script := range []string{
		"git check-ignore .env", "git check-ignore -v .env secrets/.env", "rm -f out/x", "ls -la .env", "test -f .env", "[ -f .env ]", "git ls-files --error-unmatch .env", "echo .env >> out/.gitignore", "find . -name .env -not -path x", "du -sh .env", "ls -l .env* a",
		"sed -n 1,3p a", "sed -i s/a/b/ out/f", "sed -e 's/w/r/' -e '/e/d' a", "sed 's/a/b/w out/log' a", "sed -n 'r a' b", "sed '/x/r a' b", "sed -n '/start/,/end/p' a", "sed -E 's#(w) (.env)#\\1#g' a", "sed 's/x/y/w /dev/stdout' a", "sed '1i .env' a", "sed 's/.env/w .bashrc/' a",
		"tar tf a.tar", "tar xf a.tar -C out", "tar -xzf a.tgz -C out --strip-components=1", "tar xfC a.tar out", "tar --extract --file=a.tar --directory=out", "tar xOf a.tar b", "tar -czf out/a.tgz src", "tar cf out/a.tar -C sub b c", "tar xf a.tar -C /tmp", "tar tvf a.tar b",
		"jq .a a.json", "jq -r '.x | input_filename' a.json", "jq -n --arg x .env '$x'", "jq --argjson n 1 '.a == $n' a.json", "jq -f a.jq b.json", "jq --slurpfile x a.json . b.json", "jq -rn --rawfile t a '$t'", "jq '.include' a.json", "jq --args '$ARGS' -n .env", "jq -n '$ARGS' --args .env b", "jq --indent 2 -S . a", "cat a | jq -c '.[]'", "jq --arg k \"$x\" '.[$k]' a.json", "jq . *.json",
		"git -C sub status", "git -C . log", "git status", "git log --oneline -5", "git log -p -- a", "git diff HEAD~1", "git diff -- a b", "git diff --no-index a b", "git diff --output=out/d", "git show HEAD:a", "git show --no-textconv HEAD:a", "git grep -n key", "git grep -e key -- src", "git grep --no-index key src", "git blame a", "git blame -L 1,5 HEAD -- a",
		"git commit -m .env", "git rm --cached x", "git apply --check a.patch", "git format-patch -1 --stdout", "git archive -o out/a.tar HEAD", "git bundle create out/b HEAD", "git hash-object a", "git config --get user.name", "git -C /tmp/clone status", "git stash", "git tag -l 'v*'", "git commit -F a",
		"sort -u a", "sort -T /tmp a", "sort -T out a", "sort -o out/a a", "sort -t, -k2 a", "uniq -c a", "uniq a out/b", "shuf -n 5 a", "shuf -o out/b a", "shuf -i 1-10", "shuf -e .env b", "iconv -f latin1 -t utf8 a", "iconv -f latin1 -t utf8 -o out/b a", "split -l 5 a out/x", "csplit -f out/x a 3", "wc -l a",
		"date", "date +%s", "date -u -d '2 days ago' +%F", "date -f a", "date -Iseconds", "date -r .env", "date -d \"$x\" +%s", "file a", "file -b --mime-type a", "file src", "file \"$f\"", "du -sh .", "du -d 1 -h src", "du --files0-from=a", "tree", "tree -L 2 -I node_modules", "tree -a src", "tree -L2 src", "tree -o out/t", "tree -J -L 3 --dirsfirst -I 'a|b'",
		"find . -name '*.go'", "find . -files0-from a", "find . -type f -newer a", "xxd a", "column -t a", "diff a b", "comm a b", "unzip -l a.zip", "unzip -q a.zip -d out", "unzip -p a.zip b", "zip -r out/a.zip src", "zstd -o out/a.zst a", "zstd -dc a.zst", "patch -p1 --dry-run < a.patch", "patch -i a.patch out/f", "yq .a a.yaml", "yq e '.a.b' a.yaml", "yq -r .a a.yaml", "yq -i '.a = 1' out/a.yaml",
		"mktemp", "mktemp -d", "mktemp -d /tmp/x.XXXX", "mktemp -t x.XXXX", "xargs -a a echo", "less a", "less +G a", "less -R +/word a", "pr -2 a", "curl -o out/a https://x.test", "awk '{print $1}' a", "awk '$1 > \"m\" {print}' a", "awk '{print > \"out/x\"}' a", "awk '{print ($1 > \"a\")}' b", "rg x src", "grep -rn .env src", "grep -e .env a",
	} {
		if effect, why := scriptEffect(t, c, script); effect != policy.Allow {
			t.Errorf("%s: %v: %s", script, effect, why)
		}
	}
}
