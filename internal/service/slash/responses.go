package slash

import (
	"cmp"
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
	"github.com/remitrun/remit/internal/service/home"
)

// responsesFolder has the last response of each session, each in a file that only the
// person can read.
const responsesFolder = "responses"

// defaultSession is the session of commands that name none.
const defaultSession = "default"

// sessionKey identifies a session of one workspace, so that output seen in one workspace
// is not analyzed in another.
func sessionKey(name, workspace string) string {
	name = cmp.Or(name, defaultSession)
	sum := sha256.Sum256([]byte(name + "\x00" + workspace))
	return hex.EncodeToString(sum[:])
}

// responses keeps the last responses of sessions, by their keys.
type responses struct{ home *home.Home }

func (s *Commands) responses() responses { return responses{s.Home} }

// keep replaces a session's last response.
func (s responses) keep(session string, r chat.Response) error {
	b, err := json.Marshal(r)
	if err != nil {
		return fault.Wrap(fault.Internal, err, "the response cannot be encoded")
	}
	if err := s.home.WriteFile(responseFile(session), b); err != nil {
		return err
	}
	return s.sweep(time.Now())
}

// lastResponse gives a session's last response; false: there is none, or it is too old.
func (s responses) lastResponse(session string) (chat.Response, bool, error) {
	const most = 8 * chat.MaxResponse // JSON writes some characters as six
	b, err := wholefile.ReadRegular(filepath.Join(s.home.Dir, responseFile(session)), most)
	if errors.Is(err, fs.ErrNotExist) {
		return chat.Response{}, false, nil
	}
	var r chat.Response
	if err == nil {
		err = json.Unmarshal(b, &r)
	}
	if err != nil {
		return r, false, fault.Wrap(fault.StoreFailed, err, "the last response cannot be read: %v", wholefile.Cause(err)).
			WithHint("remove %s, or call something again", filepath.Join(s.home.Dir, responseFile(session)))
	}
	return r, r.Fresh(time.Now()), nil
}

func responseFile(session string) string {
	sum := sha256.Sum256([]byte(session))
	return filepath.Join(responsesFolder, hex.EncodeToString(sum[:])+".json")
}

// sweep removes responses that are too old.
func (s responses) sweep(now time.Time) error {
	folder := filepath.Join(s.home.Dir, responsesFolder)
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
