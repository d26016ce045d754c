package logins

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/remitrun/remit/internal/base/clip"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/pause"
)

// Paths of the endpoints, and the kind of grant, which a service and its clients share.
const (
	AuthorizePath = "/oauth/device_authorization"
	TokenPath     = "/oauth/token"
	MetadataPath  = "/.well-known/oauth-authorization-server"
	GrantType     = "urn:ietf:params:oauth:grant-type:device_code"
)

const (
	answerWithin = 30 * time.Second
	maxAnswer    = 128 << 10
)

// LogInRequest says where and as what a program signs in.
type LogInRequest struct {
	Request

	URL  string                                     // of the service
	Show func(code, address, complete string)       // tells the user
	Wait func(context.Context, time.Duration) error // nil: it waits
}

// Origin is the service's origin in an address that a person typed. Tokens are sent to it, so
// it is encrypted or on this machine.
func Origin(address string) (string, error) {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || u.User != nil || u.RawQuery != "" || strings.Trim(u.Path, "/") != "" || u.Scheme != "https" && u.Scheme != "http" {
		return "", fault.New(fault.Usage, "%q is not the address of a service", clip.Text(address, 200)).WithHint("expected an address such as https://remit.example")
	}
	if ip := net.ParseIP(u.Hostname()); u.Scheme == "http" && u.Hostname() != "localhost" && !strings.HasSuffix(u.Hostname(), ".localhost") && (ip == nil || !ip.IsLoopback()) {
		return "", fault.New(fault.Usage, "%q is not encrypted: the token would be sent for anybody to read", clip.Text(address, 200)).WithHint("use https")
	}
	return u.Scheme + "://" + u.Host, nil
}

// LogIn asks a service for a token until a person has decided.
func LogIn(ctx context.Context, q LogInRequest) (Given, error) {
	at, err := Origin(q.URL)
	if err != nil {
		return Given{}, err
	}
	if q.Wait == nil {
		q.Wait = pause.For
	}
	form := url.Values{"client_id": {q.Client}, "device_name": {q.Device}, "policy": {q.Policy}, "lasts": {strconv.Itoa(int(q.Lasts / time.Second))}}
	var begun struct {
		Device   string `json:"device_code"`
		User     string `json:"user_code"`
		Address  string `json:"verification_uri"`
		Complete string `json:"verification_uri_complete"`
		Expires  int    `json:"expires_in"`
		Interval int    `json:"interval"`
	}
	if err := post(ctx, at+AuthorizePath, form, &begun); err != nil {
		if why := Refusal(""); errors.As(err, &why) {
			err = explain(why)
		}
		return Given{}, err
	}
	if begun.Device == "" || begun.User == "" || begun.Expires <= 0 || begun.Interval < 0 || begun.Expires > 1<<20 || begun.Interval > 1<<20 {
		return Given{}, fault.New(fault.NotFound, "%s does not answer as a service of Remit", at)
	}
	q.Show(begun.User, begun.Address, begun.Complete)
	ctx, cancel := context.WithTimeout(ctx, time.Duration(begun.Expires)*time.Second)
	defer cancel()
	every := time.Duration(begun.Interval) * time.Second
	form = url.Values{"grant_type": {GrantType}, "device_code": {begun.Device}, "client_id": {q.Client}}
	for {
		if err := q.Wait(ctx, every); err != nil {
			return Given{}, explain(Expired)
		}
		var got struct {
			Token   string `json:"access_token"`
			Expires int    `json:"expires_in"`
		}
		err := post(ctx, at+TokenPath, form, &got)
		switch why := Refusal(""); {
		case err == nil && got.Token == "":
			return Given{}, fault.New(fault.NotFound, "%s gave no token", at)
		case err == nil:
			out := Given{Token: got.Token}
			if got.Expires > 0 {
				out.Until = time.Now().Add(time.Duration(got.Expires) * time.Second)
			}
			return out, nil
		case errors.As(err, &why) && why == SlowDown:
			every += interval
		case errors.As(err, &why) && why == Pending:
		case errors.As(err, &why):
			return Given{}, explain(why)
		default:
			return Given{}, err
		}
	}
}

// explain turns a refusal into a message for people.
func explain(why Refusal) error {
	switch why {
	case Denied:
		return fault.New(fault.Denied, "the person refused to sign this program in")
	case SlowDown:
		return fault.New(fault.LimitReached, "too many programs wait to be signed in").WithHint("try again in some minutes")
	case Expired:
		return fault.New(fault.GrantInvalid, "nobody confirmed the code in time").WithHint("log in again")
	}
	return fault.New(fault.GrantInvalid, "the service refuses the login: %s", clip.Text(string(why), 100)).WithHint("log in again")
}

// post sends a form, and reads the answer. A refusal of the service is a Refusal.
func post(ctx context.Context, to string, form url.Values, into any) error {
	ctx, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, to, strings.NewReader(form.Encode()))
	if err != nil {
		return fault.Wrap(fault.Usage, err, "%s is not a valid address", to)
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	client := http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	res, err := client.Do(r)
	if err != nil {
		return fault.Wrap(fault.NotFound, err, "the service at %s does not answer: %v", to, errors.Unwrap(err)).WithHint("check the address, and that the service runs")
	}
	defer func() { _ = res.Body.Close() }()
	b, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer))
	if err == nil && res.StatusCode == http.StatusOK && json.Unmarshal(b, into) == nil {
		return nil
	}
	var refused struct {
		Error Refusal `json:"error"`
	}
	status := res.StatusCode
	if err == nil && (status == http.StatusBadRequest || status == http.StatusTooManyRequests) && json.Unmarshal(b, &refused) == nil && refused.Error != "" {
		return refused.Error
	}
	var p struct {
		Detail string `json:"detail"`
	}
	if err == nil && json.Unmarshal(b, &p) == nil && p.Detail != "" {
		return fault.New(fault.NotFound, "%s answered %d: %s", to, res.StatusCode, clip.Text(p.Detail, 300))
	}
	return fault.New(fault.NotFound, "%s answered %d, and not as a service of Remit", to, res.StatusCode).WithHint("check the address")
}
