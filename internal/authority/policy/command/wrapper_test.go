package command_test

import (
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/remitrun/remit/internal/authority/policy/command"
	"github.com/remitrun/remit/internal/base/tool"
)

// wrapped makes a random command line of programs that start others, mostly of
// their own options.
func (r scriptMaker) wrapped(depth int) []string {
	if depth == 0 || r.IntN(5) == 0 {
		out := []string{r.of("ca", "cb", "rm")}
		for range r.IntN(3) {
			out = append(out, r.of("a", "-x", "{}", "A", "B", ";", "+", "--", "x=1"))
		}
		return out
	}
	name := wrappers[r.IntN(len(wrappers))]
	out := []string{name}
	options := map[string]string{
		"env":     "-i -u -- -C --chdir=. --chdir - -0 -v x=1 -S -iu x --unset=x --unset d -iC",
		"xargs":   "-I -I{} -IA -i -iB -i{} -n -n1 -1 -0 -r -t -L -L1 -l -l1 -P -s -E -e -ex -d -a --replace --replace=B --max-args=1 -- -x A B {} -ti -rI --max-lines=1 --delimiter=a /dev/null",
		"sh":      "-c -e -x -ec -o -eo errexit +e -- - -u -cx -co noglob -s -l --",
		"find":    ". -name -exec -execdir -ok -type f d ( ) ! -o -a , -maxdepth 0 1 -newer -delete -print -quit ; + {} -D exec -L -H -O3 -size -printf",
		"nice":    "-n -n5 5 -5 --5 -n -1 --adjustment=1 --adjustment -- +5",
		"timeout": "-k -k1 1 -s -sKILL KILL --signal=KILL --kill-after=1 --foreground -- 5 2s --preserve-status -v",
		"nohup":   "-- -",
		"setsid":  "-w -f -c -wf -- --wait --fork",
		"stdbuf":  "-o -oL L -i0 -e0 --output=L --output -- 0",
		"ionice":  "-c -c3 3 -n -n0 0 -t -- -p --class 2 --classdata=1",
		"taskset": "1 -c 0 -a -p -- 3 ff -ac",
		"chrt":    "-o -b -i 0 -- -p 1 --other",
		"flock":   "-n -x -c -w -s -o -w1 -F --command d",
	}[name]
	words := strings.Fields(options)
	for range r.IntN(4) {
		out = append(out, words[r.IntN(len(words))])
	}
	switch name {
	case "timeout":
		out = append(out, "2")
	case "flock":
		out = append(out, "/dev/null")
	case "taskset":
		out = append(out, "1")
	case "chrt":
		out = append(out, "0")
	}
	inner := r.wrapped(depth - 1)
	switch {
	case name == "sh" || name == "flock" && r.IntN(2) == 0:
		return append(out, "-c", strings.Join(inner, " "), "a")
	case name == "find":
		return append(append(append(out, "-exec"), inner...), r.of(";", "+"))
	}
	return append(out, inner...)
}

func TestWrappersStartOnlyWhatWasDerived(t *testing.T) {
	n, seed := 80, uint64(1)
	if s := os.Getenv("REMIT_SHELL_RUNS"); s != "" {
		n, _ = strconv.Atoi(s)
		seed = uint64(time.Now().UnixNano())
	}
	if _, err := exec.LookPath("dash"); err != nil {
		t.Skip("there is no dash here")
	}
	w := newShellWorld(t)
	r := scriptMaker{rand.New(rand.NewPCG(seed, 9)), false}
	ran := 0
	for range n {
		argv := r.wrapped(3)
		quoted := make([]string, len(argv))
		for i, a := range argv {
			quoted[i] = "'" + strings.ReplaceAll(a, "'", `'\''`) + "'"
		}
		line := r.of("", "echo rm a |", "printf 'A B\\nca\\0rm' |") + " " + strings.Join(quoted, " ")
		if w.check(t, "dash", line, func(src string) (string, []tool.Action) {
			return src, command.Actions(argv, w.env(), w.work)
		}) {
			ran++
		}
		if t.Failed() {
			return
		}
	}
	t.Logf("%d of %d ran commands, seed %d", ran, n, seed)
	if ran < n/10 {
		t.Errorf("only %d of %d ran anything; the test shows nothing", ran, n)
	}
}
