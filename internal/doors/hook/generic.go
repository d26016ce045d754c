package hook

import (
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
)

// generic reads events in Remit's own form, for programs that call tools of the catalog:
//
//	{"event": "before", "session": "…", "cwd": "/…", "id": "…", "tool": "fs.read", "args": {…}, "asks": false}
//	{"event": "after", …, "output": {…}, "error": "…"}
//	{"event": "end", "session": "…"}
func generic(e *Event, m object) (err error) {
	if e.name, err = m.need("event"); err != nil {
		return err
	}
	if e.Session, err = m.text("session"); err != nil {
		return err
	}
	if e.ID, err = m.text("id"); err != nil {
		return err
	}
	dir, err := m.text("cwd")
	if err != nil {
		return err
	}
	if err = e.setDir(dir); err != nil {
		return err
	}
	var ok bool
	if e.Asks, ok = m["asks"].(bool); !ok && m["asks"] != nil {
		return fault.New(fault.Usage, "the field \"asks\" is not true or false")
	}
	e.answer = geminiAnswer
	switch e.name {
	case "before":
		e.Phase = Before
	case "after":
		e.report(m, genericMasked, "output")
		if e.Failed, err = m.text("error"); err != nil {
			return err
		}
	case "end":
		e.Phase = End
		return nil
	default:
		return fault.New(fault.Usage, "the event %.80q is not valid; expected before, after or end", e.name)
	}
	if e.Tool, err = m.need("tool"); err != nil {
		return err
	}
	if _, err := tool.ParseID(e.Tool); err != nil {
		return err
	}
	args, err := m.object("args")
	if err != nil {
		return err
	}
	if args == nil {
		args = object{}
	}
	return e.call(tool.ID(e.Tool), tool.Args(args))
}
