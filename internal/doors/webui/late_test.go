package webui_test

import (
	"context"
	"io"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/service/devices"
)

// leaving is a browser that is signed out when its form arrives.
type leaving struct {
	*browsers
	gone bool
}

func (l *leaving) Enter(ctx context.Context, c string) (devices.Device, error) {
	if l.gone {
		return devices.Device{}, fault.New(fault.GrantInvalid, "this browser is not signed in")
	}
	return l.browsers.Enter(ctx, c)
}

// Read implements io.Reader: the body of a form.
func (l *leaving) Read(p []byte) (int, error) {
	if l.gone {
		return 0, io.EOF
	}
	l.gone = true
	return copy(p, "do=apply&answer=once&code=BCDF-GHJK&theme=dark"), nil
}

// TestAFormAfterTheSignOutHasNoEffect: each form of the web UI gets its body when its browser has
// been signed out, after the request was let in by its header.
func TestAFormAfterTheSignOutHasNoEffect(t *testing.T) {
	src, err := os.ReadFile("webui.go")
	if err != nil {
		t.Fatal(err)
	}
	forms := regexp.MustCompile(`s\.(?:form|action)\("(?:POST )?([^"]+)"`).FindAllStringSubmatch(string(src), -1)
	if len(forms) < 20 {
		t.Fatalf("%d forms", len(forms))
	}
	for _, f := range forms {
		l := &leaving{browsers: &browsers{confirmed: now}}
		s, a := serverOf(t, l)
		path := strings.NewReplacer("{id}", runID, "{ref}", "web_fetch").Replace(f[1])
		w := ask(s, path, url.Values{}, func(r *http.Request) { r.Body = io.NopCloser(l) })
		if !l.gone {
			t.Errorf("%s reads no form", path)
		}
		if len(a.sent)+len(l.out) > 0 || w.Code != http.StatusUnauthorized && w.Code != http.StatusSeeOther {
			t.Errorf("%s: %d, sent %v, signed out %v", path, w.Code, a.sent, l.out)
		}
	}
}
