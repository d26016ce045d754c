// Command remit-hook is remit hook as a small program, which agents start for each tool call. It
// sends the event to a Remit process that is running already: the keeper of $REMIT_HOME, or the
// process outside of the sandbox that holds the whole agent. It decides nothing. Without an answer
// it becomes remit hook, or blocks the call. In the same way remit-hook sh is remit sh, by the keeper.
package main

import (
	"errors"
	"os"
	"strings"
	"syscall"
)

// blockedStatus makes agents block the call.
const blockedStatus = 2

func main() {
	h := hook{command: "hook", args: os.Args[1:], env: os.Environ()}
	if len(h.args) > 0 && h.args[0] == shell {
		h.command, h.args = shell, h.args[1:]
		os.Exit(h.shell())
	}
	os.Exit(h.run())
}

const shell = "sh"

// hook is one call of the agent's hook, or one command of its shell.
type hook struct {
	command   string // of remit
	args, env []string
}

// remit is the path of the remit program that is installed beside this one.
func remit() (string, error) {
	self, err := os.Executable()
	if err != nil {
		return "", err
	}
	return self[:strings.LastIndexByte(self, '/')+1] + "remit", nil
}

// become replaces this process by remit. It returns only an error.
func (h hook) become() error {
	program, err := remit()
	if err != nil {
		return err
	}
	err = syscall.Exec(program, append([]string{program, h.command}, h.args...), h.env)
	return errors.New(program + " cannot be started: " + err.Error())
}

// fail says why a command of the shell was not run, or is not known to have ended well.
func fail(why string) int {
	_, _ = os.Stderr.WriteString("remit: " + why + "\n")
	return 1
}

// block answers an agent that does not take the exit status for an answer, beside [block].
func (h hook) block(why string) int {
	// Not every version of Antigravity takes the exit status for an answer.
	if len(h.args) > 0 && h.args[0] == "antigravity" && strings.HasSuffix(h.args[len(h.args)-1], "PreToolUse") {
		_, _ = os.Stdout.WriteString(`{"decision":"deny","reason":"remit: the hook has no answer"}` + "\n") // the status says the same
	}
	return block(why)
}

// block says why the call is blocked. It does not know whether the event is about a call that was made already.
func block(why string) int {
	_, _ = os.Stderr.WriteString("remit hook: no answer, so a call that was not made yet is blocked: " + why + "\n") // the status says the same
	return blockedStatus
}
