// Command remit-hook is remit hook as a small program, which agents start for each tool call. It
// sends the event to a Remit process that is running already: the keeper of $REMIT_HOME, or the
// process outside of the sandbox that holds the whole agent. It decides nothing. Without an answer
// it becomes remit hook, or blocks the call.
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
	os.Exit(hook{args: os.Args[1:], env: os.Environ()}.run())
}

// hook is one call of the agent's hook.
type hook struct {
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

// become replaces this process by remit hook. It returns only an error.
func (h hook) become() error {
	program, err := remit()
	if err != nil {
		return err
	}
	err = syscall.Exec(program, append([]string{program, "hook"}, h.args...), h.env)
	return errors.New(program + " cannot be started: " + err.Error())
}

// block says why the call is blocked.
func block(why string) int {
	_, _ = os.Stderr.WriteString("remit hook: the call is blocked: " + why + "\n") // the status says the same
	return blockedStatus
}
