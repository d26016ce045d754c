package agentlogins

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/wholefile"
)

const (
	renewBefore = 5 * time.Minute // before its end, a login is renewed
	renewTime   = 30 * time.Second
	renewAgain  = time.Minute // after a renewal that failed
	usualTime   = time.Hour   // of a token whose issuer does not say when it ends
	maxAnswer   = 1 << 20     // bytes
)

var errRenewing = errors.New("the login is renewed just now")

// renew renews a login and saves it in its file, as the agent does. Of several processes that want it at the same time, one does,
// and the others get its result. Without wait, it is an error if another goroutine is at it.
func (l *Logins) renew(agent string, wait bool) (login, error) {
	if wait {
		l.mu.Lock()
	} else if !l.mu.TryLock() {
		return login{}, errRenewing
	}
	defer l.mu.Unlock()
	if l.now().Before(l.failed[agent].Add(renewAgain)) {
		return login{}, fault.New(fault.NotFound, "the renewal failed a moment ago")
	}
	unlock, err := wholefile.Lock(l.lock) // other processes of Remit
	if err != nil {
		return login{}, err
	}
	defer unlock()
	in, err := l.read(agent) // anew: another process may have renewed it, or the agent itself
	if err != nil || !l.isShort(in, renewBefore) {
		return in, err
	}
	if err := in.write(); err != nil { // a renewed login that cannot be saved would be lost
		return login{}, err
	}
	fresh, err := l.ask(in)
	if err == nil {
		err = in.save(fresh, l.now())
	}
	if err == nil {
		return in, nil
	}
	if again, rerr := l.read(agent); rerr == nil && !l.isShort(again, 0) && again.token() != in.token() {
		return again, nil // the agent was faster, and a token for renewal counts once
	}
	l.failed[agent] = l.now()
	return login{}, err
}

// answer is that of a token endpoint (RFC 6749, section 5.1).
type answer struct {
	Access  string `json:"access_token"`
	Refresh string `json:"refresh_token"`
	ID      string `json:"id_token"`
	Seconds int64  `json:"expires_in"`
}

func (l *Logins) ask(in login) (answer, error) {
	refresh := text(in.tokens[in.refresh])
	if refresh == "" {
		return answer{}, fault.New(fault.NotFound, "the login cannot be renewed")
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
		return out, fmt.Errorf("the answer has status %d, and no token", resp.StatusCode)
	}
	return out, nil
}

// save changes the login, and its file.
func (in *login) save(fresh answer, now time.Time) error {
	set(in.tokens, in.access, fresh.Access)
	if fresh.Refresh != "" {
		set(in.tokens, in.refresh, fresh.Refresh)
	}
	if _, had := in.tokens["id_token"]; had && fresh.ID != "" {
		set(in.tokens, "id_token", fresh.ID)
	}
	if fresh.Seconds <= 0 {
		fresh.Seconds = int64(usualTime / time.Second)
	}
	in.until(in.tokens, in.all, now, now.Add(time.Duration(fresh.Seconds)*time.Second))
	set(in.all, in.within, in.tokens)
	return in.write()
}

func (in *login) write() error {
	b, err := json.MarshalIndent(in.all, "", "  ")
	if err != nil {
		return err
	}
	return wholefile.Replace(in.path, b)
}
