package home

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/wholefile"
	"github.com/remitrun/remit/internal/call/runner"
	"github.com/remitrun/remit/internal/record/ledger"
	"github.com/remitrun/remit/internal/record/store"
)

// Custom capabilities are files of a folder.
const (
	CapabilitiesIn  = "capabilities" // below $REMIT_HOME
	MaxCapabilities = 200            // files that are read
)

// recordTimeout bounds how long the record of an operator's action may take.
const recordTimeout = 30 * time.Second

// Recorded carries out a change of an operator after the ledger has it. If it cannot
// be recorded, it is not carried out; if it fails, that is recorded too.
func (h *Home) Recorded(action string, about ledger.OperatorAction, do func() error) error {
	ctx, stop := context.WithTimeout(context.Background(), recordTimeout) // a change has no caller to give it up
	defer stop()
	st, err := h.Ledger(ctx)
	if err == nil {
		err = Operated(ctx, st, action, about, 0)
	}
	if err != nil {
		return err
	}
	if err := do(); err != nil {
		return errors.Join(err, Operated(ctx, st, action, about, fault.CodeOf(err)))
	}
	h.changed()
	if h.Tell != nil {
		h.Tell(action, about.Target)
	}
	return nil
}

// Operated records an action of the person at this computer; failed is why it was not
// carried out, 0 if it was.
func Operated(ctx context.Context, st store.Store, action string, about ledger.OperatorAction, failed fault.Code) error {
	e, err := operatedEntry(action, about, failed)
	if err == nil {
		_, err = st.Append(ctx, e)
	}
	return err
}

func operatedEntry(action string, about ledger.OperatorAction, failed fault.Code) (ledger.Entry, error) {
	about.Target = strings.ToValidUTF8(about.Target, "\uFFFD")
	doc, err := json.Marshal(about)
	if err != nil {
		return ledger.Entry{}, fault.Wrap(fault.Internal, err, "an operator's action cannot be encoded")
	}
	return ledger.Entry{
		Event:   ledger.Event{Kind: ledger.Operated, At: time.Now().UnixMicro(), Name: action, Principal: Person(), Code: failed},
		Payload: ledger.Payload{ledger.PartDoc: doc}, Durable: true,
	}, nil
}

// stateDigest is the digest of a value as a state file holds it; "" if there is none.
func stateDigest[T any](v T, there bool) string {
	b, err := json.Marshal(v)
	if !there || err != nil {
		return ""
	}
	return runner.DigestOf(b).String()
}

// The settings that people edit as files. Their changes are recorded by the first
// process that opens the ledger afterwards.
const (
	SettingsSeen = "settings.json" // the digests of the files as they were last recorded
	settingsLock = "settings.lock"
)

// RecordSettings records which settings files were added, changed or removed since the
// ledger was last opened.
func (h *Home) RecordSettings(ctx context.Context, st store.Store) error {
	now := h.settingsFiles()
	if seen, err := h.seenSettings(); err != nil || maps.Equal(seen, now) {
		return err
	}
	return h.Locked(settingsLock, func() error {
		seen, err := h.seenSettings()
		if err != nil {
			return err
		}
		entries, err := changedSettings(seen, now)
		if err != nil || len(entries) == 0 {
			return err
		}
		if _, err := st.Append(ctx, entries...); err != nil {
			return err
		}
		h.changed()
		return h.Write(SettingsSeen, now)
	})
}

func (h *Home) seenSettings() (map[string]string, error) {
	seen := map[string]string{}
	if err := h.Read(SettingsSeen, &seen); err != nil {
		return nil, fault.Wrap(fault.StoreFailed, err, "%s cannot be read: %v", SettingsSeen, err).
			WithHint("remove %s; all settings are then recorded again", filepath.Join(h.Dir, SettingsSeen))
	}
	return seen, nil
}

// settingsFiles gives the digest of each settings file, by its path below $REMIT_HOME.
func (h *Home) settingsFiles() map[string]string {
	out := map[string]string{}
	names := []string{"config.yaml", "policy.yaml"}
	list, err := os.ReadDir(filepath.Join(h.Dir, CapabilitiesIn))
	for _, e := range list {
		if ext := filepath.Ext(e.Name()); (ext == ".yaml" || ext == ".yml") && len(names) < MaxCapabilities {
			names = append(names, filepath.Join(CapabilitiesIn, e.Name()))
		}
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		out[CapabilitiesIn] = "unreadable"
	}
	for _, name := range names {
		src, err := wholefile.ReadRegular(filepath.Join(h.Dir, name), maxState)
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			out[name] = "unreadable" // whoever uses the file reports why
		default:
			out[name] = runner.DigestOf(src).String()
		}
	}
	return out
}

func changedSettings(seen, now map[string]string) ([]ledger.Entry, error) {
	names := slices.Collect(maps.Keys(now))
	for name := range seen {
		if _, there := now[name]; !there {
			names = append(names, name)
		}
	}
	slices.SortFunc(names, cmp.Compare[string])
	var out []ledger.Entry
	for _, name := range names {
		if seen[name] == now[name] {
			continue
		}
		action := "config"
		if strings.HasPrefix(name, CapabilitiesIn) {
			action = "capability"
		}
		switch {
		case seen[name] == "":
			action += ".add"
		case now[name] == "":
			action += ".remove"
		default:
			action += ".change"
		}
		e, err := operatedEntry(action, ledger.OperatorAction{Target: name, Digest: now[name], Was: seen[name]}, 0)
		if err != nil {
			return nil, err
		}
		out = append(out, e)
	}
	return out, nil
}
