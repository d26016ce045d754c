package app

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/remitrun/remit/internal/agents/chat"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/wholefile"
)

// responsesFolder holds the last response of each session, a file each, which only
// the person can read.
const responsesFolder = "responses"

// SessionKey is what a session's last response is kept under: its name, in one
// workspace. What was seen in one is not analyzed in another.
func (a *App) SessionKey(name, workspace string) string { return a.sessionKey(name, workspace) }

func (a *App) sessionKey(name, workspace string) string {
	if name == "" {
		name = DefaultSession
	}
	sum := sha256.Sum256([]byte(name + "\x00" + workspace))
	return hex.EncodeToString(sum[:])
}

// Responses keeps the last responses of sessions, by their keys.
func (a *App) Responses() chat.Responses { return a.responses() }

func (a *App) responses() responseFiles { return responseFiles{a} }

type responseFiles struct{ app *App }

// Keep implements chat.Responses.
func (s responseFiles) Keep(session string, r chat.Response) error {
	b, err := json.Marshal(r)
	if err != nil {
		return fault.Wrap(fault.Internal, err, "the response cannot be encoded")
	}
	if err := s.app.Home.WriteFile(responseFile(session), b); err != nil {
		return err
	}
	return s.sweep(time.Now())
}

// Last implements chat.Responses.
func (s responseFiles) Last(session string) (chat.Response, bool, error) {
	const most = 8 * chat.MaxResponse // JSON writes some characters as six
	b, err := wholefile.ReadRegular(filepath.Join(s.app.Home.Dir, responseFile(session)), most)
	if errors.Is(err, fs.ErrNotExist) {
		return chat.Response{}, false, nil
	}
	var r chat.Response
	if err == nil {
		err = json.Unmarshal(b, &r)
	}
	if err != nil {
		return r, false, fault.Wrap(fault.StoreFailed, err, "the last response cannot be read: %v", wholefile.Cause(err)).
			WithHint("remove %s, or call something anew", filepath.Join(s.app.Home.Dir, responseFile(session)))
	}
	return r, r.Fresh(time.Now()), nil
}

func responseFile(session string) string {
	sum := sha256.Sum256([]byte(session))
	return filepath.Join(responsesFolder, hex.EncodeToString(sum[:])+".json")
}

// sweep removes responses that are too old to count.
func (s responseFiles) sweep(now time.Time) error {
	folder := filepath.Join(s.app.Home.Dir, responsesFolder)
	entries, err := os.ReadDir(folder)
	var errs []error
	for _, e := range entries {
		info, ierr := e.Info()
		if ierr != nil || !strings.HasSuffix(e.Name(), ".json") || now.Sub(info.ModTime()) < chat.KeepResponse {
			continue
		}
		if rerr := os.Remove(filepath.Join(folder, e.Name())); rerr != nil && !errors.Is(rerr, fs.ErrNotExist) {
			errs = append(errs, rerr)
		}
	}
	if err = errors.Join(append(errs, err)...); err != nil {
		return fault.Wrap(fault.StoreFailed, err, "old responses cannot be removed: %v", wholefile.Cause(err))
	}
	return nil
}
