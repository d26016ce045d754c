package extensions

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/base/walk"
	"github.com/remitrun/remit/internal/base/wholefile"
	"github.com/remitrun/remit/internal/service/home"
	"github.com/remitrun/remit/internal/service/runs"
	"github.com/remitrun/remit/internal/tools/extension"
)

// Installation asks for an extension to be installed.
type Installation struct {
	Path   string // a folder, or a zip archive
	Update bool   // of one that is installed
	SHA256 string // the expected digest of the archive, in hexadecimal; "": anything
	Signer string // the required signer, as manifests have it; "": anybody, or nobody
	// Confirm is given the extension's requests and its later abilities, and decides whether it is
	// installed. It is required.
	Confirm func(Offer) (bool, error)
}

// Installed is an extension that was installed.
type Installed struct {
	Extension

	Run      string    `json:"run_id,omitempty"`   // of its installation's plan
	Accepted []tool.ID `json:"accepted,omitempty"` // tools that are others than before, and were accepted with the update
}

// Install installs an extension, or puts a newer one in the place of one that is
// installed. It is there whole or not at all.
func (x *Extensions) Install(ctx context.Context, q Installation) (Installed, error) {
	p, err := readExtension(q)
	if err == nil {
		p.Name(x.taken)
	}
	if err != nil {
		return Installed{}, err
	}
	e := listing(p)
	if e.From, err = filepath.Abs(q.Path); err != nil {
		return Installed{}, fault.Wrap(fault.Usage, err, "%q is not a valid path", q.Path)
	}
	e.By, e.Installed = "user:"+x.Home.User, time.Now().UTC().Truncate(time.Second)
	list, err := x.List()
	if err != nil {
		return Installed{}, err
	}
	if err = x.installable(q, p, e, list); err != nil {
		return Installed{}, err
	}
	o, err := x.offer(ctx, p, e, x.extensionRoot(e.ID))
	if err != nil {
		return Installed{}, err
	}
	if was, known := home.Entry(list, e.ID); known {
		o.replaces(was)
	}
	if _, _, err = x.installPlan(p); err != nil {
		return Installed{}, err
	}
	o.Installed = time.Time{} // not yet
	switch ok, err := q.Confirm(o); {
	case err != nil:
		return Installed{}, err
	case !ok:
		return Installed{}, fault.New(fault.Usage, "%s was not installed: not confirmed", e.ID)
	}
	return x.install(ctx, q, p, e, o.Was)
}

// readExtension reads the extension to be installed, and checks that it is the requested one.
func readExtension(q Installation) (*extension.Package, error) {
	files, archive, err := readExtensionSource(q.Path)
	if err != nil {
		return nil, err
	}
	if q.SHA256 != "" {
		sum := sha256.Sum256(archive)
		switch got := hex.EncodeToString(sum[:]); {
		case archive == nil:
			return nil, fault.New(fault.Usage, "a folder has no checksum: --sha256 is for archives")
		case got != strings.ToLower(q.SHA256):
			return nil, fault.New(fault.ExtensionChecksum, "the archive's SHA-256 is %s, not the requested one", got)
		}
	}
	p, err := extension.Read(q.Path, files)
	if err != nil {
		return nil, err
	}
	if q.Signer != "" {
		if _, err := extension.ParseSigner(q.Signer); err != nil {
			return nil, fault.New(fault.Usage, "--signer: %v", err)
		}
		if got := p.Manifest.SignerText(); got != q.Signer {
			return nil, fault.New(fault.ExtensionChecksum, "%s is signed by %s; expected %s", p.Manifest.ID, orNone(got), q.Signer)
		}
	}
	return p, nil
}

func orNone(signer string) string {
	if signer == "" {
		return "no one"
	}
	return signer
}

// installable says why an extension cannot be installed, as things are.
func (x *Extensions) installable(q Installation, p *extension.Package, e Extension, list []Extension) error {
	was, there := home.Entry(list, e.ID)
	switch order, _ := extension.Compare(e.Version, was.Version); {
	case there && !q.Update:
		return fault.New(fault.ExtensionConflict, "the extension %s is installed already, in version %s", e.ID, was.Version).WithHint("remit ext update %s", q.Path)
	case !there && q.Update:
		return fault.New(fault.ExtensionUnknown, "no extension is called %q, so there is nothing to update", e.ID).WithHint("remit ext install %s", q.Path)
	case there && was.Signer != "" && was.Signer != e.Signer:
		return fault.New(fault.ExtensionChecksum, "the installed %s is signed by %s, but this one by %s", e.ID, was.Signer, orNone(e.Signer)).
			WithHint("if you trust it all the same, remove the installed one first")
	case there && order < 0:
		return fault.New(fault.ExtensionConflict, "version %s of %s is older than the installed %s", e.Version, e.ID, was.Version).WithHint("remove the installed one first")
	}
	if err := p.Manifest.Runs(x.Home.Version, runtime.GOOS, runtime.GOARCH); err != nil {
		return err
	}
	return conflicts(e, list)
}

// replaces notes what an update changes.
func (o *Offer) replaces(was Extension) {
	o.Was = &was
	o.Enabled = was.Enabled
	for i := range o.Wants {
		o.Wants[i].New = !slices.Contains(was.Permissions, o.Wants[i].Name)
	}
}

// install installs as agreed.
func (x *Extensions) install(ctx context.Context, q Installation, p *extension.Package, e Extension, was *Extension) (Installed, error) {
	out := Installed{Extension: e}
	staged, err := x.stageExtension(p)
	if err != nil {
		return out, err
	}
	defer func() { _ = walk.Remove(staged) }() // it is gone where all went well; else it is only in the way
	run, err := x.runInstall(ctx, p, staged)
	if run != uuid.Nil {
		out.Run = run.String()
	}
	if err != nil {
		return out, err
	}
	verb := "install"
	if was != nil {
		verb = "update"
	}
	err = x.change(verb, e.ID, func(list []Extension) ([]Extension, error) {
		now, there := home.Entry(list, e.ID)
		if there != (was != nil) || there && now.Digest != was.Digest {
			return nil, fault.New(fault.ExtensionConflict, "the extension %s was changed meanwhile", e.ID).WithHint("try again")
		}
		if err := x.installable(q, p, e, list); err != nil {
			return nil, err
		}
		if there {
			e.Enabled = now.Enabled
		}
		return home.With(list, e), nil
	}, func() error {
		if err := x.swapExtension(e.ID, staged, was != nil); err != nil {
			return fault.Wrap(fault.StoreFailed, err, "the extension %s cannot be put in its place: %v", e.ID, wholefile.Cause(err))
		}
		return nil
	}, func() error {
		return walk.Remove(filepath.Join(filepath.Dir(x.extensionRoot(e.ID)), oldPrefix+e.ID))
	})
	if out.Extension = e; err != nil {
		return out, err
	}
	if err = x.Sync(); err == nil && was != nil && e.Enabled && len(e.Tools) > 0 {
		out.Accepted, err = x.acceptUpdate(ctx, e.ID)
	}
	return out, err
}

// acceptUpdate accepts the tools of an update, which a person has agreed to.
func (x *Extensions) acceptUpdate(ctx context.Context, id string) ([]tool.ID, error) {
	changed, err := x.Tools.Changed(ctx, "ext:"+id)
	if err != nil || len(changed) == 0 {
		return nil, err
	}
	if _, err := x.ShowTools(ctx, home.Person(), changed); err != nil { // the person was shown the update
		return nil, err
	}
	_, err = x.AcceptTools(ctx, home.Person(), changed)
	return changed, err
}

// runInstall runs the plan of an installation: in the work folder, under the policy
// that was shown, the bounds of the extension and the person's own.
func (x *Extensions) runInstall(ctx context.Context, p *extension.Package, staged string) (uuid.UUID, error) {
	thePlan, under, err := x.installPlan(p)
	if err != nil || thePlan == nil {
		return uuid.Nil, err
	}
	bounds, err := p.Bounds(staged)
	if err != nil {
		return uuid.Nil, err
	}
	res, err := x.Runs.Plan(ctx, runs.Request{
		Plan: thePlan, Root: under, Bounds: []*policy.Policy{bounds}, Workspace: extension.Work(staged), Name: "install " + p.Manifest.ID,
	})
	if err == nil && res.Status != tool.Completed {
		code := fault.ToolFailed
		if res.Status == tool.StatusDenied {
			code = fault.Denied
		}
		err = fault.New(code, "the plan of the installation was not completed (%s), so %s is not installed", res.Status, p.Manifest.ID).
			WithHint("remit report %s", res.ID)
	}
	if errors.Is(err, context.Canceled) {
		err = fault.Wrap(fault.ToolCancelled, err, "the installation was cancelled")
	}
	return res.ID, err
}
