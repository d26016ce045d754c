package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/remitrun/remit/internal/app"
	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/base/clip"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/call/runner"
	"github.com/remitrun/remit/internal/doors/hook"
	"github.com/remitrun/remit/internal/doors/hookrelay"
	"github.com/remitrun/remit/internal/doors/hookwire"
	"github.com/remitrun/remit/internal/record/store"
	"github.com/remitrun/remit/internal/service/clients"
	"github.com/remitrun/remit/internal/service/home"
	"github.com/remitrun/remit/internal/service/policies"
	"github.com/remitrun/remit/internal/service/runs"
)

// blockedStatus is the exit status of a hook that makes agents block the call.
const blockedStatus = 2

// hookDeadline bounds a decision. Its time is below the agents' limits (the shortest is 30 seconds),
// because some agents carry out a call whose hook took too long. An answer in place of a decision must still arrive in time.
func hookDeadline(ctx context.Context) (context.Context, context.CancelFunc) {
	const most = hookwire.DecisionTime - hookwire.SendTime
	return context.WithTimeoutCause(ctx, most, fault.New(fault.ToolTimeout, "no decision within %s", most))
}

func (s *session) hookCmd() *cobra.Command {
	var policyFile, dir, homeDir, event string
	var confine bool
	c := &cobra.Command{
		Use:   "hook AGENT",
		Short: "Decide a tool call of another agent, as that agent's hook",
		Long: `AGENT is antigravity, claude, codex, copilot, cursor, gemini or generic. Reads
one event of the agent on standard input, decides the tool call under the
policy, records it, and prints the answer in the agent's own form. The agent
carries out an allowed call itself: Remit does not confine it. An event after
the call records the outcome, marked as reported by the agent, and is answered
with the output without keys if it has some. All calls of one agent session are
one run.

Without -p the policy is the trusted remit.yaml of the nearest folder at or
above the event's folder, which is then the workspace. In a linked Git worktree
of the workspace's repository, that worktree is the workspace. Without a policy
every call is denied.

With --confine the agent's shell gets every command as remit sh -c COMMAND
instead, or as remit-hook sh -c COMMAND where that small program is installed
beside remit: that decides and records it, and runs it in the sandbox.

Exit status 0 with one JSON object or no output is an answer. Every error is
exit status 2 with a message on standard error, which blocks the call if it was
not made. An output that cannot be searched for keys is withheld.
`,
		Example: `  remit hook claude < event.json
  remit hook claude -p policy.yaml -w ~/project < event.json`,
		Args:      cobra.ExactArgs(1),
		ValidArgs: hook.Agents(),
		RunE: func(cmd *cobra.Command, args []string) error {
			if policyFile != "" {
				policyFile = s.abs(policyFile)
			}
			if homeDir != "" {
				s.useHome(s.abs(homeDir))
			}
			h := hookDoor{session: s, agent: args[0], event: event, policy: policyFile, dir: dir, home: homeDir, confine: confine}
			if hookrelay.Present() {
				return h.forward(cmd.Context())
			}
			return h.run(cmd.Context())
		},
	}
	c.Flags().StringVarP(&policyFile, "policy", "p", "", "policy `FILE` to decide under")
	c.Flags().StringVarP(&dir, "workspace", "w", "", "workspace `DIR` (default: see above; with -p the current folder)")
	c.Flags().StringVar(&homeDir, "home", "", "use this `DIR` as REMIT_HOME, instead of the environment's")
	c.Flags().StringVar(&event, "event", "", "the `NAME` of the event, for antigravity: its events do not have it")
	c.Flags().Bool(hookwire.AloneFlag, false, "decide in this process; remit-hook sends the event to no keeper")
	c.Flags().BoolVar(&confine, "confine", false, "have shell commands run in the sandbox, by remit sh")
	return c
}

// hookDoor handles one event of an agent.
type hookDoor struct {
	*session
	agent, policy, dir, home string
	event                    string // the name of the event; "": it has it
	confine                  bool
	confined                 *confinedHooks // of an agent that is confined as a whole; else nil
	installed                string         // the workspace that the hook was installed for
	scratch                  string         // the agent's folder for scratch files of the session; "": none is known
	about                    string         // the description of an unknown tool and its arguments; "": the tool is known
	elsewhere                string         // why the agent's folder is outside of the workspace; "": it is not

	src      atomic.Pointer[[]byte]      // the event, once it was read
	reported atomic.Bool                 // the event is a report: the agent has carried the call out
	masked   atomic.Pointer[hook.Masked] // of a report whose output has keys; nil: it has none, or the policy shows them
}

// run answers the event. Any failure, a panic and the deadline included, ends with a message
// and exit status 2: agents block the call then, but carry it out after other statuses. Only the keys in an output
// are masked all the same.
func (h *hookDoor) run(ctx context.Context) error {
	answer, err := h.answerInTime(ctx)
	if err == nil {
		_, err = h.Out.Write(answer)
	}
	if err != nil {
		_, _ = h.Out.Write(h.denial(err)) // the status says the same
		h.blocked(err)
		return exit(blockedStatus)
	}
	return nil
}

// denial gives the output beside an error.
func (h *hookDoor) denial(err error) []byte {
	var src []byte
	if read := h.src.Load(); read != nil {
		src = *read
	}
	return hook.Blocked(h.agent, h.event, src, h.reported.Load(), show(fault.ForModel(err)))
}

// answerInTime is answer with the deadline of a decision, and with the answer that masks keys in place of an error.
func (h *hookDoor) answerInTime(ctx context.Context) ([]byte, error) {
	ctx, stop := hookDeadline(ctx)
	defer stop()
	type result struct {
		answer []byte
		err    error
	}
	done := make(chan result, 1) // buffered: the process may end first
	go func() {
		var r result
		r.answer, r.err = h.answer(ctx)
		if h.app != nil && h.confined == nil { // before the answer: a record that cannot be closed is an error
			r.err = errors.Join(r.err, h.app.Close())
		}
		done <- r
	}()
	var r result
	select {
	case r = <-done:
	case <-ctx.Done():
		r.err = context.Cause(ctx)
	}
	if h.confined == nil {
		h.app = nil // closed, or left to the end of the process
	}
	return h.maskAnyway(r.answer, r.err)
}

// blocked reports an error, and whether it blocks the call.
func (h *hookDoor) blocked(err error) {
	what := "the call is blocked"
	if h.reported.Load() {
		what = "the call was made, and the report about it is not recorded"
	}
	h.errorf("remit hook %s: %s\n", show(h.agent), what)
	h.complain(err)
}

// answer is handle, with an error instead of a panic.
func (h *hookDoor) answer(ctx context.Context) (out []byte, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fault.New(fault.Internal, "the hook crashed: %v", p)
		}
	}()
	return h.handle(ctx)
}

// handle reads the event and gives what to print.
func (h *hookDoor) handle(ctx context.Context) ([]byte, error) {
	src, err := io.ReadAll(io.LimitReader(h.In, hookwire.MaxEvent+1))
	if err != nil {
		return nil, fault.Wrap(fault.Usage, err, "the event cannot be read: %v", err)
	}
	h.src.Store(&src)
	e, err := hook.ParseNamed(h.agent, h.event, src)
	var masked *hook.Masked
	if e != nil {
		masked = h.maskKeys(e)
	}
	if err == nil && e.Phase == hook.Before {
		h.settleFiles(ctx, e)
	}
	if err == nil && e.Phase == hook.Before && h.confined == nil {
		err = h.look(e)
	}
	if err != nil || e.Phase == hook.Other {
		return nil, err
	}
	if e.Internal && masked == nil {
		return nil, nil
	}
	a, err := h.open()
	if err != nil {
		return nil, err
	}
	q, err := h.request(a, e)
	if err != nil {
		return nil, err
	}
	if h.confined == nil && h.ownGateway(a, q, e) {
		return nil, nil
	}
	switch e.Phase {
	case hook.Before:
		return h.before(ctx, a, q, e)
	case hook.After:
		return h.after(ctx, a, q, e)
	default:
		err := h.end(ctx, a, q)
		if q.Workspace != h.installed { // the agent may also have worked there
			q.Workspace = h.installed
			err = errors.Join(err, h.end(ctx, a, q))
		}
		return nil, err
	}
}

// before decides a call, or has the agent run its command in the sandbox.
func (h *hookDoor) before(ctx context.Context, a *app.App, q runs.ClientRequest, e *hook.Event) ([]byte, error) {
	script, ok := e.Script()
	switch {
	case !ok || !h.confine:
	case h.elsewhere != "": // it would run in another folder than the agent believes
		e.Refusal = h.elsewhere
	default:
		var asked runs.Asked
		if e.Asks && h.confined == nil {
			var err error
			if asked, err = h.askAhead(ctx, a, q, e); err != nil {
				return nil, err
			}
		}
		line, err := h.sandboxed(q, script, asked.Questions)
		if err != nil {
			return nil, err
		}
		return e.Replace(line, asked.Reasons)
	}
	v, err := h.decide(ctx, a, q, e)
	if err != nil {
		return nil, err
	}
	return e.Answer(v)
}

// look adds the agent's own use of files to an event: the commands of a skill, another file
// instead of a missing one, or files that the agent keeps for itself. An agent in the sandbox is bounded by it.
func (h *hookDoor) look(e *hook.Event) error {
	if e.Needs != "" {
		if _, err := os.Stat(e.Needs); err != nil {
			e.Refusal = fmt.Sprintf("%q does not exist, and %s would edit another file of that name; use an absolute path", e.Needs, e.Agent)
		}
	}
	if e.Transcript != "" {
		own := clients.FilesOf(clients.AgentSession{ID: e.Session, Transcript: e.Transcript, Lookup: h.lookup})
		h.scratch = own.Scratch()
		e.OwnFiles(func(path string, write bool) tool.ID { return ownFileTool(own.Kind(path), e.Agent, write) })
	}
	if e.Skill == "" {
		return nil
	}
	person, _ := h.lookup("HOME")
	skill, err := clients.ProjectSkill(e.Dir, person, e.Skill)
	if err != nil {
		return err
	}
	e.Refusal, e.Internal = skill.Refusal, skill.Refusal == "" && len(skill.Reads) == 0
	for _, file := range skill.Reads {
		e.Calls = append(e.Calls, hook.Call{Tool: "fs.read", Args: tool.Args{"path": file}})
	}
	return nil
}

// ownFileTool is the tool by which policies decide about an agent's own file; "": it is not one. Notes and plans
// instruct other sessions, so writing them is a tool of its own.
func ownFileTool(kind clients.AgentFile, agent string, write bool) tool.ID {
	switch {
	case kind == clients.NoAgentFile, kind == clients.OutputFile && write:
		return ""
	case kind == clients.MemoryFile && write:
		return tool.ID(tool.AgentTools + agent + ":memory")
	case kind == clients.OtherPlan && write:
		return tool.ID(tool.AgentTools + agent + ":plan")
	case write:
		return tool.AgentWrite
	case kind == clients.OutputFile, kind == clients.ScratchFile:
		return tool.AgentRead
	}
	return tool.AgentRecall
}

// ownGateway reports a call of Remit's own MCP server, which decides and records it itself. The agent's
// word on the server's name does not count: its configuration must have the entry that Remit wrote.
func (h *hookDoor) ownGateway(a *app.App, q runs.ClientRequest, e *hook.Event) bool {
	if e.Server != clients.GatewayName || e.Phase != hook.Before && e.Phase != hook.After {
		return false
	}
	dirs := []string{q.Workspace, h.abs(e.Dir)}
	if dir, ok := h.lookup("CLAUDE_PROJECT_DIR"); ok && filepath.IsAbs(dir) {
		dirs = append(dirs, filepath.Clean(dir))
	}
	return a.Clients.OwnGateway(e.Agent, dirs...)
}

// askAhead finds the questions that the agent must put to its user before a script runs.
func (h *hookDoor) askAhead(ctx context.Context, a *app.App, q runs.ClientRequest, e *hook.Event) (runs.Asked, error) {
	dir, err := home.Workspace(e.Folder())
	if err != nil {
		return runs.Asked{}, nil //nolint:nilerr // the shell cannot start there, either
	}
	args := tool.Args{"cwd": startIn(q.Workspace, dir)}
	script, _ := e.Script()
	args["script"] = script
	asked, err := a.Runs.AskAhead(ctx, q, args)
	for i, why := range asked.Reasons {
		asked.Reasons[i] = show(why)
	}
	if shown := showLines(script); len(asked.Reasons) > 0 && shown != script {
		asked.Reasons = append(asked.Reasons, "the script has characters that a terminal does not show, here as escapes: "+clip.Text(shown, maxShownScript))
	}
	return asked, err
}

// maxShownScript bounds a script in the question to an agent's user, in bytes. The agent shows all of it.
const maxShownScript = 4000

// sandboxed is the command line that runs a script of the agent in the sandbox, with the questions that its user
// has answered if it runs. It begins with the path of this program, or of the small one beside it, and holds no word that a
// shell would expand.
func (h *hookDoor) sandboxed(q runs.ClientRequest, script string, questions []uuid.UUID) (string, error) {
	exe, err := os.Executable()
	if err != nil {
		return "", fault.Wrap(fault.Internal, err, "the path of this program is not known: %v", err)
	}
	words := []string{exe, "sh", "-w", q.Workspace}
	if h.confined == nil {
		words[0] = cmp.Or(clients.HookBeside(exe), exe)
		words = append(words, "--session", q.Session, "--agent", q.Client) // [hook.Parse] has checked them
	}
	if h.scratch != "" {
		words = append(words, "--scratch", h.scratch)
	}
	for _, id := range questions {
		words = append(words, "--approved", id.String())
	}
	if q.Policy != "" {
		file, err := filepath.Abs(q.Policy)
		if err != nil {
			return "", fault.Wrap(fault.Usage, err, "the path %q is not known: %v", q.Policy, err)
		}
		words = append(words, "-p", file)
	}
	if h.home != "" {
		words = append(words, "--home", h.home)
	}
	words = append(words, "-c", script)
	for i, w := range words {
		words[i] = "'" + strings.ReplaceAll(w, "'", `'\''`) + "'"
	}
	return strings.Join(words, " "), nil
}

// request names the session, and the workspace that its policy is of. The workspace comes
// from the flags, the folder of this process, or a policy that was trusted: not from the
// event alone. In a linked worktree of its repository, that is the workspace.
func (h *hookDoor) request(a *app.App, e *hook.Event) (runs.ClientRequest, error) {
	if h.confined != nil {
		h.confined.note(clientSession{e.Agent, e.Session}, e.Phase == hook.End)
		q := h.confined.fixed
		q.Client, q.Session, q.Asks = e.Agent, e.Session, e.Asks
		h.installed = q.Workspace
		return q, nil
	}
	q := runs.ClientRequest{Client: e.Agent, Session: e.Session, Policy: h.policy, Asks: e.Asks, Advice: adviseHook}
	dir := h.dir
	if dir == "" && h.policy != "" && e.Agent == "claude" {
		dir, _ = h.lookup("CLAUDE_PROJECT_DIR")
	}
	search := dir == "" && h.policy == ""
	if search {
		dir = e.Dir
	}
	ws, err := home.Workspace(h.abs(dir))
	if err == nil && search {
		ws, err = a.Policies.Project(ws)
	}
	if err != nil {
		return q, err
	}
	at, inside := policies.For(ws, e.Folder())
	if !inside {
		h.elsewhere = fmt.Sprintf("this hook holds for %s, and the agent works in %s: run remit init there, or start the agent in %s", ws, e.Folder(), ws)
	}
	q.Workspace, h.installed = at, ws
	return q, nil
}

// adviseHook tells an agent how a person answers a question.
func adviseHook(q store.Approval) string {
	if len(q.Roles) > 0 {
		return "a person with the role " + strings.Join(q.Roles, " or ") + " answers in the web UI; then make exactly the same call again, before " + q.Until.UTC().Format(time.RFC3339)
	}
	who := "a person answers"
	if q.Needs > 1 {
		who = fmt.Sprintf("%d people answer", q.Needs)
	}
	return who + " with: remit approvals approve " + q.ID.String() + "; then make exactly the same call again, before " + q.Until.UTC().Format(time.RFC3339)
}

// decide takes the event's calls through the runner.
func (h *hookDoor) decide(ctx context.Context, a *app.App, q runs.ClientRequest, e *hook.Event) (hook.Verdict, error) {
	c, ctx, err := a.Runs.Client(ctx, q, true)
	if err != nil {
		return hook.Verdict{}, err
	}
	if err := h.settle(c, e); err != nil {
		e.Refusal = fault.ForModel(err)
	}
	if e.Refusal != "" {
		o, err := c.Refuse(ctx, runner.Call{Tool: tool.ID(tool.AgentTools + e.Agent + ":" + e.Tool), Step: e.ID}, fault.New(fault.Denied, "%s", e.Refusal))
		return h.verdict(c, o), err
	}
	outcomes, err := c.Authorize(ctx, searched(ctx, c, e), clientCalls(e)...)
	v := hook.Verdict{Effect: policy.Allow}
	for i, o := range outcomes {
		one := h.aboutCall(e, i, h.verdict(c, o))
		if one.Effect < v.Effect || v.Reason == "" || h.about != "" && one.Effect == policy.Allow && v.Effect == policy.Allow { // the last is the tool
			v = one
		}
	}
	if len(outcomes) == 0 {
		v = hook.Verdict{}
	}
	return v, err
}

func clientCalls(e *hook.Event) []runner.Call {
	out := make([]runner.Call, len(e.Calls))
	for i, c := range e.Calls {
		out[i] = runner.Call{Tool: c.Tool, Args: c.Args, Step: e.ID}
	}
	return out
}

// verdict is the answer to the agent about one call.
func (h *hookDoor) verdict(c *runs.ClientSession, o runner.Outcome) hook.Verdict {
	if o.Status == tool.Pending && o.Err == nil {
		effect := o.Decision.Effect
		if o.Approved {
			effect = policy.Allow
		}
		return hook.Verdict{Effect: effect, Reason: fmt.Sprintf("%s (remit run %s, call %d)", o.Decision.Reason, shortRunID(c.Run.ID.String()), o.Index)}
	}
	parts := []string{"remit: " + fault.ForModel(o.Err)}
	if c.Hint != "" {
		parts = append(parts, string(c.Hint))
	}
	if h.elsewhere != "" && !strings.Contains(parts[0], h.elsewhere) {
		parts = append(parts, h.elsewhere)
	}
	return hook.Verdict{Effect: policy.Deny, Reason: strings.Join(parts, "; ")}
}
