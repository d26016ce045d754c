package browser

import (
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"time"

	"github.com/remitrun/remit/internal/authority/permit"
	"github.com/remitrun/remit/internal/base/clip"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/confine/egress"
	"github.com/remitrun/remit/internal/confine/sandbox"
)

// Bounds of a browser's private folder.
const (
	maxFolder = 512 << 20
	maxFiles  = 20_000
)

// programs are where Chromium is installed. The sandbox does not show /opt, where Chrome is. The launchers in /usr/bin are not
// used: they read /proc/cpuinfo, which the sandbox hides.
var programs = []string{"/usr/lib/chromium/chromium", "/usr/lib/chromium-browser/chromium-browser", "/usr/lib64/chromium-browser/chromium-browser",
	"/usr/lib/chromium/chrome", "/usr/lib64/chromium/chromium"}

// options of Chromium. Its own sandbox cannot be made inside of Remit's, which holds the
// whole browser; docs/threat-model.md says what that costs. The protocol is spoken over
// pipes, so that no port is open that a page could reach.
var options = []string{
	"--headless=new", "--no-sandbox", "--remote-debugging-pipe", "--user-data-dir=" + sandbox.FolderAt + "/profile",
	"--proxy-server=http://127.0.0.1:61080", "--proxy-bypass-list=<-loopback>;" + nowhere, "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
	"--force-webrtc-ip-handling-policy=disable_non_proxied_udp", "--disable-quic", "--dns-prefetch-disable",
	"--no-first-run", "--no-default-browser-check", "--no-pings", "--no-service-autorun", "--disable-gpu", "--disable-dev-shm-usage", "--disable-breakpad", "--disable-extensions", "--allow-browser-signin=false",
	"--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-default-apps", "--disable-domain-reliability",
	"--disable-client-side-phishing-detection", "--disable-search-engine-choice-screen", "--metrics-recording-only", "--password-store=basic", "--mute-audio", "--hide-scrollbars",
	"--disable-features=Translate,OptimizationHints,MediaRouter,DialMediaRouteProvider,AutofillServerCommunication,PrivacySandboxSettings4,HttpsUpgrades,HttpsFirstBalancedModeAutoEnable,NetworkTimeServiceQuerying,PreconnectToSearch,BackForwardCache",
	"--window-size=1280,800", "--disable-field-trial-config", "--disable-component-extensions-with-background-pages",
	"--gaia-url=https://" + nowhere, "--google-apis-url=https://" + nowhere, "--google-url=https://" + nowhere, "--gcm-checkin-url=https://" + nowhere, "--gcm-registration-url=https://" + nowhere, "--gcm-mcs-endpoint=" + nowhere + ":443",
}

// nowhere is where Chromium finds its maker's services, which no option switches off. It is
// not asked of the proxy and its name is not resolved, so that such requests reach nothing and
// are not taken for requests of a page.
const nowhere = "chromium.invalid"

// preferences of the profile: no connection is made before a page needs it.
const preferences = `{"net":{"network_prediction_options":2},"search":{"suggest_enabled":false},"alternate_error_pages":{"enabled":false},"profile":{"default_content_setting_values":{"notifications":2,"automatic_downloads":1,"geolocation":2}}}`

// fonts is the configuration of fontconfig, as the sandbox has no /etc/fonts.
const fonts = `<?xml version="1.0"?><!DOCTYPE fontconfig SYSTEM "fonts.dtd"><fontconfig><dir>/usr/share/fonts</dir><dir>/usr/local/share/fonts</dir><cachedir>` +
	sandbox.FolderAt + `/fonts</cachedir></fontconfig>`

// missing is the status with which the script says that there is no browser.
const missing = 93

// script starts the first browser that is there. The shell moves the pipes to the descriptors
// that Chromium reads and writes, 3 and 4.
func script(key string) string {
	args := "'" + strings.Join(options, "' '") + "' --ignore-certificate-errors-spki-list=" + key + " about:blank"
	return "export FONTCONFIG_FILE=" + sandbox.FolderAt + "/fonts.conf; for b in " + strings.Join(programs, " ") + "; do [ -x $b ] && exec $b " + args +
		" 3<&0 4>&1 </dev/null >&2; done; exit 93"
}

// start starts a browser in the sandbox, with one empty page. It outlives ctx. On a busy machine
// Chromium may crash before it has a page. It has done nothing by then, and is started again.
func (b *Browsers) start(ctx context.Context, p permit.Permit) (page *Page, err error) {
	for range maxStarts {
		if page, err = b.startOnce(ctx, p); !errors.Is(err, errCrashed) {
			break
		}
	}
	return page, err
}

const maxStarts = 4

// errCrashed: the browser made a fault of its own before it had a page.
var errCrashed = errors.New("the browser crashed")

func (b *Browsers) startOnce(ctx context.Context, p permit.Permit) (*Page, error) {
	folder, err := b.box.NewFolder(p, maxFolder, maxFiles)
	if err != nil {
		return nil, err
	}
	page := &Page{relay: egress.NewRelay(), folder: folder, changed: make(chan struct{}), refs: map[int]int{}, loads: map[string]bool{}}
	err = errors.Join(folder.Put("profile/Default/Preferences", []byte(preferences)), folder.Put("fonts.conf", []byte(fonts)), folder.Put("uploads/readme", nil))
	if err == nil {
		err = b.run(ctx, p, page)
	}
	if err != nil {
		page.close()
		return nil, err
	}
	return page, nil
}

// run starts the browser's process and waits until its page can be used.
func (b *Browsers) run(ctx context.Context, p permit.Permit, page *Page) error {
	in, ours, err := os.Pipe()
	if err != nil {
		return fault.Wrap(fault.ToolFailed, err, "no pipe can be made for the browser")
	}
	theirs, out, err := os.Pipe()
	if err != nil {
		return fault.Wrap(fault.ToolFailed, errors.Join(err, in.Close(), ours.Close()), "no pipe can be made for the browser")
	}
	said, errs, err := os.Pipe()
	if err != nil {
		return fault.Wrap(fault.ToolFailed, errors.Join(err, in.Close(), ours.Close(), theirs.Close(), out.Close()), "no pipe can be made for the browser")
	}
	life, stop := context.WithCancel(context.WithoutCancel(ctx))
	page.stop, page.over = stop, make(chan struct{})
	go func() { _, _ = io.Copy(io.Discard, said); _ = said.Close() }() // Chromium's own log, which pages can fill
	go func() {
		defer close(page.over)
		page.outcome, page.failed = b.box.Run(life, p, sandbox.Command{Shell: true, POSIX: true, Argv: []string{sandbox.Bash, "-c", script(page.relay.KeyHash())},
			Dir: sandbox.FolderAt, Folder: page.folder, Stdio: &sandbox.Stdio{In: in, Out: out, Err: errs}, Proxy: page.relay})
		_ = ours.Close()
	}()
	page.conn = newConn(theirs, ours, page.event)
	go func() { <-page.conn.ended; _ = theirs.Close() }()
	ctx, cancel := context.WithTimeoutCause(ctx, startTime, fault.New(fault.ToolTimeout, "the browser did not start within %s", startTime))
	defer cancel()
	if err := page.attach(ctx); err != nil {
		return page.notStarted(ctx, err)
	}
	p.Note(tool.Happened{Effect: tool.SystemExec, On: "Chromium"})
	return nil
}

// notStarted says why the browser did not start.
func (p *Page) notStarted(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	select {
	case <-p.over:
	case <-time.After(time.Second): // it may only have closed its pipe
		return err
	}
	switch {
	case p.failed != nil:
		return p.failed
	case p.outcome.ExitCode == missing:
		return fault.New(fault.NotFound, "no Chromium or Chrome is installed in the places where Remit looks").WithHint("install the package chromium; Remit looks for %s", strings.Join(programs[:2], " and ")+" and others")
	}
	if o := p.outcome; o.Signal == "SIGSEGV" && o.Limit == "" && !o.TimedOut {
		err = errors.Join(err, errCrashed)
	}
	return fault.Wrap(fault.ToolFailed, err, "the browser ended when it was started: %s", clip.Text(exitOf(p.outcome), 200)).
		WithHint("it needs about 500 MB of memory (commands.memory) and 200 processes (commands.processes)")
}

func exitOf(o sandbox.Outcome) string {
	if err := o.Failure("it", "a limit"); err != nil {
		return fault.Message(err)
	}
	return "it exited"
}
