package httpapi

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/doors/admission"
	"github.com/remitrun/remit/internal/service/logins"
)

// Logins signs in programs without a browser (RFC 8628). Its endpoints need no grant.
type Logins interface {
	Begin(ctx context.Context, q logins.Request) (logins.Begun, error)
	Poll(ctx context.Context, device, client string) (logins.Given, error) // a logins.Refusal
}

const (
	maxLogin  = 32 << 10 // bytes of a form
	loginPage = "/ui/login"
)

// login adds the endpoints, if there is a page on which people confirm.
func (s *Server) login() {
	if s.o.Logins == nil || s.o.Address == "" {
		return
	}
	s.mux.HandleFunc("GET "+logins.MetadataPath, s.loginMetadata)
	s.mux.HandleFunc("POST "+logins.AuthorizePath, s.beginLogin)
	s.mux.HandleFunc("POST "+logins.TokenPath, s.pollLogin)
}

// loginMetadata describes the endpoints (RFC 8414).
func (s *Server) loginMetadata(w http.ResponseWriter, _ *http.Request) {
	oauth(w, http.StatusOK, map[string]any{
		"issuer": s.o.Address, "device_authorization_endpoint": s.o.Address + logins.AuthorizePath, "token_endpoint": s.o.Address + logins.TokenPath,
		"grant_types_supported": []string{logins.GrantType}, "token_endpoint_auth_methods_supported": []string{"none"}, "response_types_supported": []string{},
	})
}

func oauth(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v) // the client may have gone
}

func refuse(w http.ResponseWriter, status int, code logins.Refusal, text string) {
	body := map[string]string{"error": string(code)}
	if text != "" {
		body["error_description"] = text
	}
	oauth(w, status, body)
}

// loginForm reads a form; nil: it was answered. It counts no requests: strangers could then lock out
// people at the same address. [logins.Logins.Begin] bounds the waiting requests.
func loginForm(w http.ResponseWriter, r *http.Request) url.Values {
	r.Body = http.MaxBytesReader(w, r.Body, maxLogin)
	if err := r.ParseForm(); err != nil {
		refuse(w, http.StatusBadRequest, "invalid_request", "the form cannot be read")
		return nil
	}
	for name, values := range r.PostForm {
		if len(values) > 1 {
			refuse(w, http.StatusBadRequest, "invalid_request", strconv.Quote(name)+" is given twice")
			return nil
		}
	}
	return r.PostForm
}

// beginLogin files the request of a program.
func (s *Server) beginLogin(w http.ResponseWriter, r *http.Request) {
	form := loginForm(w, r)
	if form == nil {
		return
	}
	seconds, err := strconv.Atoi(cmp.Or(form.Get("lasts"), "0"))
	if err != nil || seconds < 0 || seconds > 1<<30 {
		refuse(w, http.StatusBadRequest, "invalid_request", "lasts is not a number of seconds")
		return
	}
	b, err := s.o.Logins.Begin(r.Context(), logins.Request{Client: form.Get("client_id"), Device: form.Get("device_name"), Policy: form.Get("policy"),
		Lasts: time.Duration(seconds) * time.Second, From: admission.Address(r.RemoteAddr)})
	switch {
	case fault.CodeOf(err) == fault.LimitReached:
		w.Header().Set("Retry-After", "60")
		refuse(w, http.StatusTooManyRequests, logins.SlowDown, fault.Message(err))
		return
	case fault.CodeOf(err) != fault.Usage && err != nil:
		refuse(w, http.StatusServiceUnavailable, "temporarily_unavailable", "")
		return
	case err != nil:
		refuse(w, http.StatusBadRequest, "invalid_request", fault.Message(err))
		return
	}
	page := s.o.Address + loginPage
	oauth(w, http.StatusOK, map[string]any{
		"device_code": b.Device, "user_code": b.User, "verification_uri": page, "verification_uri_complete": page + "?code=" + url.QueryEscape(b.User),
		"expires_in": int(b.Expires / time.Second), "interval": int(b.Interval / time.Second),
	})
}

// pollLogin gives a program its token, once a person has confirmed.
func (s *Server) pollLogin(w http.ResponseWriter, r *http.Request) {
	form := loginForm(w, r)
	if form == nil {
		return
	}
	if kind := form.Get("grant_type"); kind != logins.GrantType {
		refuse(w, http.StatusBadRequest, "unsupported_grant_type", "only "+logins.GrantType+" is supported")
		return
	}
	got, err := s.o.Logins.Poll(r.Context(), form.Get("device_code"), form.Get("client_id"))
	if why := logins.Refusal(""); errors.As(err, &why) {
		if why == logins.Invalid && !s.refused.Take(time.Now(), admission.Address(r.RemoteAddr)) {
			w.Header().Set("Retry-After", "1")
			refuse(w, http.StatusTooManyRequests, logins.SlowDown, "too many requests with invalid codes from this address")
			return
		}
		refuse(w, http.StatusBadRequest, why, "")
		return
	} else if err != nil {
		refuse(w, http.StatusServiceUnavailable, "temporarily_unavailable", "")
		return
	}
	body := map[string]any{"access_token": got.Token, "token_type": "Bearer"}
	if !got.Until.IsZero() {
		body["expires_in"] = max(0, int(time.Until(got.Until)/time.Second))
	}
	oauth(w, http.StatusOK, body)
}
