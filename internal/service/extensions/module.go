package extensions

import (
	"crypto/sha256"

	"github.com/remitrun/remit/internal/authority/permit"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/tools/executor/wasm"
	extsource "github.com/remitrun/remit/internal/tools/source/extension"
)

// extensionModule makes what runs an action with a module: a function that is
// called as the action, and reaches what the action's arguments name, if they say
// that they are files, and nothing else.
func (x *Extensions) extensionModule(spec tool.Spec, call extsource.Call) (permit.Tool, error) {
	code := call.Package.Module(call.Action)
	f := wasm.Function{Name: call.Action.ID, Title: spec.Title, Description: spec.Description, Input: spec.Input, Risk: spec.Risk,
		Memory: wasm.DefaultMemory, Timeout: wasm.DefaultTimeout}
	for _, p := range call.Action.Params() {
		switch at := (wasm.Place{Argument: p.Name}); p.Within {
		case tool.FileRead:
			f.Wants.Read = append(f.Wants.Read, at)
		case tool.FileWrite, tool.FileDelete:
			f.Wants.Write = append(f.Wants.Write, at)
		case tool.Network:
			return nil, fault.New(fault.ExtensionInvalid, "/%s %s: modules reach no network", call.Command.Name, call.Action.ID).In("within")
		}
	}
	m := x.Modules.Host.Module(sha256.Sum256(code), func() ([]byte, error) { return code, nil })
	man := &wasm.Manifest{Release: call.Package.Manifest.Version, Functions: []wasm.Function{f}}
	return wasm.Tools("ext:"+call.Package.Manifest.ID, extsource.Kind, man, m)[0], nil
}
