package agentlogins

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/wholefile"
)

const (
	renewBefore = 5 * time.Minute // before its end, a login is renewed
	renewTime   = 30 * time.Second
	renewAgain  = time.Minute // after a renewal that failed
	usualTime   = time.Hour   // of a token whose issuer does not say when it ends
	maxSeconds  = 1 << 30     // of a token, about 34 years
	maxAnswer   = 1 << 20     // of the token endpoint, in bytes
)

var (
	errRenewing = errors.New("another request is renewing the login")
	errFailed   = errors.New("the renewal failed a moment ago")
)

// renew renews a login and saves it in its file, as the agent does. Of several processes that want it at the same time, one does,
// and the others get its result. Without wait, it returns errRenewing while a renewal is running.
func (l *Logins) renew(agent string, wait bool) (login, error) {
	lock := wholefile.Lock // other processes of Remit
	if wait {
		l.mu.Lock()
	} else if lock = wholefile.TryLock; !l.mu.TryLock() {
		return login{}, errRenewing
	}
	defer l.mu.Unlock()
	if l.now().Before(l.failed[agent].Add(renewAgain)) {
		return login{}, errFailed
	}
	unlock, err := lock(filepath.Join(l.dir, "login-"+agent+".lock"))
	if err != nil {
		return login{}, err
	}
	if unlock == nil {
		return login{}, errRenewing
	}
	defer unlock()
	in, err := l.read(agent) // anew: another process may have renewed it, or the agent itself
	if err != nil || !l.isShort(in, renewBefore) {
		return in, err
	}
	if kept, ok := l.unsaved[agent]; ok {
		if !l.isShort(kept, renewBefore) {
			return kept, nil
		}
		in = kept
	}
	if in, err = l.renewed(agent, in); err != nil {
		l.failed[agent] = l.now()
	}
	return in, err
}

// renewed asks for a new login in place of an old one, and saves it.
func (l *Logins) renewed(agent string, old login) (login, error) {
	if err := writable(filepath.Dir(old.path)); err != nil { // a renewed login that cannot be saved would be lost
		return login{}, err
	}
	fresh, err := l.ask(old)
	in, rerr := l.read(agent) // anew: the agent writes other things to the file, too
	switch {
	case errors.Is(rerr, fault.NotFound): // the person has logged out
		return login{}, rerr
	case rerr != nil && err != nil:
		return login{}, err
	case rerr != nil:
		in = old
	case in.token() != old.token() && !l.isShort(in, 0):
		return in, nil // the agent was faster, and a token for renewal counts once
	case err != nil:
		return login{}, err
	}
	if in.save(fresh, l.now()) == nil {
		delete(l.unsaved, agent)
	} else {
		l.unsaved[agent] = in // else the login would be lost: the old one cannot be renewed again
	}
	return in, nil
}

// writable reports why a file cannot be made in a folder.
func writable(dir string) error {
	f, err := os.CreateTemp(dir, ".remit-*.tmp")
	if err != nil {
		return err
	}
	_, err = f.Write(make([]byte, 64<<10)) // more than a login has, in case the disk is full
	return errors.Join(err, f.Close(), os.Remove(f.Name()))
}

// answer is that of a token endpoint (RFC 6749, section 5.1).
type answer struct {
	Access  string `json:"access_token"`
	Refresh string `json:"refresh_token"`
	ID      string `json:"id_token"`

	ExpiresIn json.RawMessage `json:"expires_in"` // seconds, as a number or a text
}

// lasts is the time of the new token.
func (a answer) lasts() time.Duration {
	n, err := strconv.ParseFloat(strings.Trim(string(a.ExpiresIn), `"`), 64)
	if err != nil || n < 1 || n > maxSeconds {
		return usualTime
	}
	return time.Duration(n) * time.Second
}

func (l *Logins) ask(in login) (answer, error) {
	refresh := text(in.tokens[in.refresh])
	if refresh == "" {
		return answer{}, errors.New("the login cannot be renewed")
	}
	body, err := json.Marshal(map[string]string{"grant_type": "refresh_token", "refresh_token": refresh, "client_id": in.client})
	if err != nil {
		return answer{}, err
	}
	resp, err := l.http.Post(in.url, "application/json", bytes.NewReader(body))
	if err != nil {
		return answer{}, err
	}
	defer func() { _ = resp.Body.Close() }() // it was read
	var out answer
	b, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return out, err
	}
	if resp.StatusCode != http.StatusOK || json.Unmarshal(b, &out) != nil || out.Access == "" {
		return out, fmt.Errorf("the token endpoint answered with status %d and no access token", resp.StatusCode)
	}
	return out, nil
}

// save changes the login, and its file.
func (in *login) save(fresh answer, now time.Time) error {
	set(in.tokens, in.access, fresh.Access)
	if fresh.Refresh != "" {
		set(in.tokens, in.refresh, fresh.Refresh)
	}
	if in.id != "" && fresh.ID != "" {
		set(in.tokens, in.id, fresh.ID)
	}
	in.until(in.tokens, in.all, now, now.Add(fresh.lasts()))
	set(in.all, in.within, in.tokens)
	return in.write()
}

func (in *login) write() error {
	b, err := json.MarshalIndent(in.all, "", "  ")
	if err != nil {
		return err
	}
	if err := wholefile.Replace(in.path, b); err == nil {
		return nil
	}
	return os.WriteFile(in.path, b, 0o600) // a file that cannot be replaced, as one that is mounted, may be written
}
