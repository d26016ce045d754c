package remote

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/remitrun/remit/internal/authority/permit"
	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/base/clip"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/confine/remote/tree"
	"github.com/remitrun/remit/internal/confine/remote/wire"
	"github.com/remitrun/remit/internal/confine/sandbox"
)

// Run implements placement.Elsewhere. It is never repeated: if the worker is lost once it was told to
// begin, the error is fault.Interrupted.
func (h *Hub) Run(ctx context.Context, p permit.Permit, c sandbox.Command) (sandbox.Outcome, error) {
	defer c.Stdio.Close()
	at := p.Chain().Placement()
	if !at.Allows(policy.Remote) {
		return sandbox.Outcome{}, at.Refusal(policy.Remote)
	}
	if err := remotable(p); err != nil {
		return sandbox.Outcome{}, err
	}
	if err := h.Available(at, c); err != nil {
		return sandbox.Outcome{}, err
	}
	w := h.free(at.Labels, true)
	if w == nil {
		return sandbox.Outcome{}, h.Available(at, c)
	}
	defer h.done(w)
	x := &call{h: h, w: w, p: p, c: c, dir: p.Env().Workspace}
	return x.run(ctx)
}

// remotable refuses commands that may not leave this machine.
func remotable(p permit.Permit) error {
	secrets, err := p.Chain().EnvSecrets(p.Tool())
	if err != nil {
		return err
	}
	if len(secrets) > 0 {
		return fault.New(fault.HandleRefused, "the command is given the secret %q in the variable %s, and secrets are never sent to a worker", secrets[0].Store, secrets[0].Env).
			WithHint("use a secret with hosts, which the node adds to requests; or run the command with where: local")
	}
	if p.Held() == nil {
		return fault.New(fault.HandleRefused, "the writes of this run are not held, and a command on a worker needs that")
	}
	return nil
}

// call is one command on its way to a worker.
type call struct {
	h     *Hub
	w     *worker
	p     permit.Permit
	c     sandbox.Command
	dir   string // the workspace
	root  *os.Root
	stage string // a folder for what comes back
	snap  *tree.Snapshot
	token permit.Token
}

func (x *call) run(ctx context.Context) (sandbox.Outcome, error) {
	held := x.p.Held()
	if err := held.Room(ctx, 1); err != nil {
		return sandbox.Outcome{}, err
	}
	lower, upper, work, leave, err := held.Alone(ctx)
	if err != nil {
		return sandbox.Outcome{}, err
	}
	defer leave()
	fd, err := x.h.conf.Overlay(lower, upper, work)
	if err != nil {
		return sandbox.Outcome{}, err
	}
	x.root, err = os.OpenRoot(fmt.Sprintf("/proc/self/fd/%d", fd))
	_ = unix.Close(fd) // the root has a descriptor of its own
	if err != nil {
		return sandbox.Outcome{}, fault.Wrap(fault.SandboxMissing, err, "the held workspace cannot be opened")
	}
	defer func() { _ = x.root.Close() }()
	x.stage = path.Join(path.Dir(upper), "incoming")
	if x.snap, err = tree.Scan(ctx, x.root, x.readable); err != nil {
		return sandbox.Outcome{}, err
	}
	if err := x.send(ctx); err != nil {
		return sandbox.Outcome{}, err
	}
	if err := x.sign(ctx); err != nil {
		return sandbox.Outcome{}, err
	}
	return x.perform(ctx)
}

// readable reports whether the command may read a path of the workspace: nothing else is sent.
func (x *call) readable(p string) bool {
	at := path.Join(x.dir, p)
	return x.p.Chain().DecideAction(tool.Action{Kind: tool.FileRead, Path: at, Real: at}).Effect == policy.Allow
}

// sign makes the permit token, which rests on the intent in the ledger.
func (x *call) sign(ctx context.Context) error {
	work, err := x.p.Work()
	if err != nil {
		return err
	}
	if work.Ledger, work.Leaf, err = x.h.conf.Leaf(ctx, work.Seq); err != nil {
		return err
	}
	if work.Command, err = json.Marshal(wire.CommandOf(x.c)); err != nil {
		return fault.Wrap(fault.Internal, err, "the command cannot be encoded")
	}
	work.Tree, work.Worker, work.Node, work.NotAfter = x.snap.Root.Hash, x.w.Key, x.h.conf.Node, time.Now().Add(wire.Life)
	work.TreeSize, work.Epoch = x.snap.Root.Size, x.h.epoch
	x.token, err = permit.SignWork(x.h.conf.Key, work)
	return err
}

// send sends the content that the worker lacks.
func (x *call) send(ctx context.Context) error {
	missing, err := x.w.missing(ctx, x.snap.Hashes())
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var all sync.WaitGroup
	slots := make(chan struct{}, 8)
	for _, hash := range missing {
		slots <- struct{}{}
		all.Go(func() {
			defer func() { <-slots }()
			if err := x.put(ctx, hash); err != nil {
				cancel(err)
			}
		})
	}
	all.Wait()
	return context.Cause(ctx)
}

func (x *call) put(ctx context.Context, hash string) error {
	body, size, err := x.snap.Open(hash)
	if err != nil {
		return err
	}
	defer func() { _ = body.Close() }() // only read
	req, err := http.NewRequestWithContext(ctx, http.MethodPut, base+"/blobs/"+hash, body)
	if err != nil {
		return err
	}
	req.ContentLength = size
	res, err := x.w.client.Do(req)
	if err != nil {
		return unreachable(ctx, x.w, err)
	}
	defer func() { _ = res.Body.Close() }() // only read
	return refusal(x.w, res, http.StatusNoContent)
}

// missing asks the worker which digests it lacks.
func (w *worker) missing(ctx context.Context, hashes []string) ([]string, error) {
	var list bytes.Buffer
	if err := wire.Write(&list, hashes); err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, base+"/missing", &list)
	if err != nil {
		return nil, err
	}
	res, err := w.client.Do(req)
	if err != nil {
		return nil, unreachable(ctx, w, err)
	}
	defer func() { _ = res.Body.Close() }() // only read
	if err := refusal(w, res, http.StatusOK); err != nil {
		return nil, err
	}
	var missing []string
	if err := wire.Read(bufio.NewReader(res.Body), &missing); err != nil {
		return nil, fault.Wrap(fault.ToolFailed, err, "worker %s gave an answer that cannot be read", w.Name)
	}
	if len(missing) > len(hashes) {
		return nil, fault.New(fault.ToolFailed, "worker %s asks for more than it was offered", w.Name)
	}
	return missing, nil
}

// unreachable is the error of a request before the command has begun.
func unreachable(ctx context.Context, w *worker, err error) error {
	var coded *fault.Error
	switch {
	case ctx.Err() != nil && errors.As(context.Cause(ctx), &coded):
		return coded
	case ctx.Err() != nil:
		return permit.Ended(ctx)
	}
	return fault.Wrap(fault.SandboxMissing, err, "worker %s cannot be reached, so the command was not started", w.Name)
}

// refusals are the codes that a worker can refuse with; any other counts as a failure.
var refusals = map[fault.Code]bool{
	fault.SandboxMissing: true, fault.HandleRefused: true, fault.GrantInvalid: true, fault.ArgsInvalid: true, fault.NotFound: true,
	fault.LimitReached: true, fault.ToolTimeout: true, fault.ToolCancelled: true,
}

const maxMessage = 2000

// said is an error in a worker's words, which are not trusted.
func said(w *worker, code fault.Code, message string) error {
	if !refusals[code] {
		code = fault.ToolFailed
	}
	return fault.New(code, "worker %s: %s", w.Name, clip.Text(strings.ToValidUTF8(message, "\uFFFD"), maxMessage))
}

// refusal reads the error of an answer that has another status than wanted.
func refusal(w *worker, res *http.Response, want int) error {
	if res.StatusCode == want {
		return nil
	}
	var r wire.Refusal
	if err := json.NewDecoder(io.LimitReader(res.Body, 64<<10)).Decode(&r); err != nil {
		return fault.New(fault.ToolFailed, "worker %s answered with status %d", w.Name, res.StatusCode)
	}
	return said(w, r.Code, r.Message)
}

// perform tells the worker to begin, renews the token while it works, and takes the result over.
func (x *call) perform(ctx context.Context) (sandbox.Outcome, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	proxy, err := x.h.conf.Egress(x.p, x.c)
	if err != nil {
		return sandbox.Outcome{}, err
	}
	defer proxy.Close()
	in := x.p.Intent()
	place := fmt.Sprintf("/calls/%s-%d", in.Run, in.Call)
	pr, pw := io.Pipe()
	defer func() { _ = pr.Close() }() // ends renew
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, base+place, pr)
	if err != nil {
		return sandbox.Outcome{}, err
	}
	go x.renew(ctx, pw, wire.Start{Token: x.token, Env: proxy.Env(sandbox.ProxyPort), CA: proxy.CA()})
	begun := time.Now()
	res, err := x.w.client.Do(req)
	if err != nil {
		x.note()
		return sandbox.Outcome{Duration: time.Since(begun)}, x.gone(ctx, err)
	}
	defer func() { _ = res.Body.Close() }() // only read
	if err := refusal(x.w, res, http.StatusOK); err != nil {
		return sandbox.Outcome{}, err
	}
	x.note()
	l := newTunnel(ctx, x.w.client, base+place+"/egress")
	var serving sync.WaitGroup
	serving.Go(func() { _ = proxy.Serve(l) }) // it ends with Close
	out, err := x.result(ctx, bufio.NewReader(res.Body))
	_ = l.Close() // no connection follows the result
	proxy.Close()
	serving.Wait()
	out.Connections, out.Place = proxy.Connections(), "worker "+x.w.Name
	out.Duration = max(out.Duration, time.Microsecond)
	return out, err
}

// gone is the error of a call whose worker was told to begin and did not say how it ended.
func (x *call) gone(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return permit.Ended(ctx)
	}
	return lost(x.w, err)
}

// note records that the command was started.
func (x *call) note() {
	x.p.Note(tool.Happened{Effect: tool.SystemExec, On: tool.Action{Kind: tool.Command, Argv: x.c.Argv}.Subject(), Place: "worker " + x.w.Name})
}

// renew sends the start, and renewals until the call is over. Each failure ends the call.
func (x *call) renew(ctx context.Context, to *io.PipeWriter, start wire.Start) {
	err := wire.Write(to, start)
	for tick := time.NewTicker(wire.Renew); err == nil; {
		select {
		case <-ctx.Done():
			err = ctx.Err()
		case <-tick.C:
			var t permit.Token
			if t, err = x.token.Renew(x.h.conf.Key, time.Now().Add(wire.Life)); err == nil {
				err = wire.Write(to, t)
			}
		}
		if err != nil {
			tick.Stop()
		}
	}
	_ = to.CloseWithError(err) // it never fails
}

// result reads how the command ended, and takes over what it wrote.
func (x *call) result(ctx context.Context, from *bufio.Reader) (sandbox.Outcome, error) {
	var r wire.Result
	if err := wire.Read(from, &r); err != nil {
		return sandbox.Outcome{}, x.gone(ctx, err)
	}
	out := x.bounded(r.Outcome)
	if r.Code != 0 || r.Message != "" {
		if !r.Started {
			out = sandbox.Outcome{}
		}
		return out, said(x.w, r.Code, r.Message)
	}
	if x.snap.Missing > 0 {
		out.Notes = append(out.Notes, fmt.Sprintf("%d names of the workspace were not sent to the worker, as %q: links that lead out, special files, or names that are not plain", x.snap.Missing, x.snap.Omitted[0]))
	}
	notes, err := x.takeOver(ctx, r.Changes, from)
	out.Notes = append(out.Notes, notes...)
	return out, err
}

// bounded keeps of an outcome what the policies allow, in valid form.
func (x *call) bounded(o sandbox.Outcome) sandbox.Outcome {
	most := sandbox.WithDefaults(x.p.Limits()).OutputBytes
	for _, s := range []*sandbox.Stream{&o.Stdout, &o.Stderr} {
		s.Data = s.Data[:min(int64(len(s.Data)), most)]
		s.Total = max(s.Total, int64(len(s.Data)))
		s.Truncated = s.Total > int64(len(s.Data))
	}
	text := func(s string) string { return clip.Text(strings.ToValidUTF8(s, "\uFFFD"), maxMessage) }
	o.Signal, o.Limit, o.Tier, o.Isolation = text(o.Signal), text(o.Limit), text(o.Tier), text(o.Isolation)
	o.Notes, o.Hints, o.Touched, o.Changed = o.Notes[:min(len(o.Notes), 20)], nil, nil, nil // the paths are not those of this machine
	o.Refusals = o.Refusals[:min(len(o.Refusals), 20)]
	for i := range o.Notes {
		o.Notes[i] = text(o.Notes[i])
	}
	for i, r := range o.Refusals {
		o.Refusals[i].Path, o.Refusals[i].Reason = text(r.Path), text(r.Reason)
	}
	limits := map[string]string{}
	for name, how := range o.Limits {
		if policy.CheckLabels([]string{name}) == nil && len(limits) < 20 {
			limits[name] = text(how)
		}
	}
	o.Limits = limits
	o.CPU, o.PeakMemory, o.DiskRead, o.DiskWritten = max(o.CPU, 0), max(o.PeakMemory, 0), max(o.DiskRead, 0), max(o.DiskWritten, 0)
	return o
}
