package browser

import (
	"context"

	"github.com/remitrun/remit/internal/authority/permit"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/confine/browser"
	"github.com/remitrun/remit/internal/confine/files"
	"github.com/remitrun/remit/internal/confine/sandbox"
)

// maxConnections bounds the connections in a result. The record has them all.
const maxConnections = 100

// act makes a call that does something in the page, and returns what came of it.
func (x tools) act(env tool.Env, a args, start bool, actions []tool.Action, do func(context.Context, *browser.Page, permit.Permit) error) (permit.Prepared, error) {
	if a.SaveTo == "" && len(a.More) > 0 {
		return permit.Prepared{}, fault.New(fault.ArgsInvalid, "save_more needs save_to, the file of the first download").In("save_more")
	}
	var saves []string
	if a.SaveTo != "" {
		saves = append([]string{a.SaveTo}, a.More...)
	}
	for _, to := range saves {
		actions = append(actions, access(env, tool.FileWrite, to))
	}
	return permit.Prepared{Actions: actions, Run: func(ctx context.Context, pm permit.Permit) (tool.Result, error) {
		if start {
			if err := pm.Check(actions[0]); err != nil { // before a browser is started
				return tool.Result{}, err
			}
		}
		out := map[string]any{}
		asked, err := x.browsers.Use(ctx, pm, start, func(p *browser.Page) error {
			saved, err := x.saving(ctx, pm, p, saves, out, func() error { return do(ctx, p, pm) })
			addUnasked(out, p.Told(), saved)
			if err != nil {
				return err
			}
			return describe(ctx, p, out)
		})
		list(out, asked)
		return result(out, err)
	}}, nil
}

// saving does something in the page and, if files are named, writes what the page offers to
// them. It returns how many it wrote.
func (x tools) saving(ctx context.Context, pm permit.Permit, p *browser.Page, to []string, out map[string]any, do func() error) (saved int, err error) {
	if len(to) == 0 {
		return 0, do()
	}
	got, err := p.Save(ctx, len(to), do)
	if err != nil {
		return 0, err
	}
	var list []any
	for i, one := range got {
		if err := save(pm, to[i], one.Content); err != nil {
			return i, err
		}
		list = append(list, map[string]any{"path": files.New(pm).Show(to[i]), "bytes": len(one.Content), "url": one.URL, "name": one.Name})
		out["saved"] = list
	}
	return len(got), nil
}

// save writes a new file.
func save(pm permit.Permit, to string, content []byte) error {
	_, err := files.New(pm).Write(to, content, files.WriteOptions{Mode: files.Create, Parents: true})
	return err
}

// access is the action of a path.
func access(env tool.Env, kind tool.ActionKind, name string) tool.Action {
	clean, err := files.Clean(env, name)
	a := tool.Action{Kind: kind, Path: clean}
	if err != nil {
		a.Unknown = fault.Message(err)
	}
	return a
}

func element(ref string) (int, error) {
	n, err := browser.ParseRef(ref)
	if err != nil {
		return 0, fault.New(fault.ArgsInvalid, "%v", err).In("ref")
	}
	return n, nil
}

// result keeps the output of a call that failed, if it has any.
func result(out map[string]any, err error) (tool.Result, error) {
	if err != nil && len(out) == 0 {
		return tool.Result{}, err
	}
	return tool.Result{Output: out}, err
}

// describe adds the page's place and snapshot.
func describe(ctx context.Context, p *browser.Page, out map[string]any) error {
	text, cut, err := p.Snapshot(ctx)
	if err != nil {
		return err
	}
	out["snapshot"], out["truncated"] = text, cut
	return place(ctx, p, out)
}

func place(ctx context.Context, p *browser.Page, out map[string]any) error {
	at, err := p.Where(ctx)
	if err != nil {
		return err
	}
	out["url"], out["title"] = at.URL, at.Title
	if at.Status != 0 {
		out["status"] = at.Status
	}
	if at.Loading {
		out["loading"] = true
	}
	return nil
}

// addUnasked adds what happened in the page without being asked for. The first downloads were saved.
func addUnasked(out map[string]any, t browser.Told, saved int) {
	for name, texts := range map[string][]string{"popups": t.Popups, "dialogs": t.Dialogs} {
		if len(texts) > 0 {
			out[name] = anys(texts, func(s string) any { return s })
		}
	}
	if len(t.Downloads) > saved {
		out["downloads"] = anys(t.Downloads[saved:], func(d browser.Download) any { return map[string]any{"url": d.URL, "name": d.Name} })
	}
}

// list adds the connections that the page asked for.
func list(out map[string]any, all []sandbox.Connection) {
	if more := len(all) - maxConnections; more > 0 {
		all, out["connections_more"] = all[:maxConnections], more
	}
	if len(all) == 0 {
		return
	}
	out["connections"] = anys(all, func(c sandbox.Connection) any {
		one := map[string]any{"target": c.Target(), "allowed": !c.Refused()}
		if c.Refused() || c.Reason != "" {
			one["reason"] = c.Why()
		}
		if c.Count > 1 {
			one["count"] = c.Count
		}
		return one
	})
}

func anys[T any](from []T, as func(T) any) []any {
	out := make([]any, len(from))
	for i, v := range from {
		out[i] = as(v)
	}
	return out
}
