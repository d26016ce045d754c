package research

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"strings"
	"time"

	"github.com/remitrun/remit/internal/agents/capability"
	"github.com/remitrun/remit/internal/agents/capability/webfetch"
	"github.com/remitrun/remit/internal/authority/permit"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/tools/typed"
)

// archived is the content of an archived copy's file. The record has the text, too: it is
// in the result of the call that archived it.
type archived struct {
	URL    string `json:"url"`
	Final  string `json:"final_url,omitempty"`
	SHA256 string `json:"sha256"` // of the text
	Text   string `json:"text"`
}

// The present states of a source.
const (
	same    = "same"
	changed = "changed"
	gone    = "gone"
)

func digest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

// copyOf is the path of the archived copy of a URL.
func copyOf(url string) string { return Folder + "/sources/" + digest(url) + ".json" }

type sourceArgs struct {
	URL string `json:"url"`
}

// sourceTools are the tools for sources on the web.
func (s session) sourceTools(own func(name, title, description string, effects tool.Effects, in, out json.RawMessage) tool.Spec) []capability.Offer {
	effects := tool.EffectSet(tool.NetworkHTTP, tool.NetworkDNS, tool.FSRead)
	const url = `"url":{"type":"string","minLength":1,"maxLength":2000,"description":"The source's URL, as in the findings."}`
	archive := own("archive_source", "Archive a source",
		"Fetches a page and keeps a copy of its text, so that recheck_source can later say whether the page still says it. A page is archived once.", effects|tool.EffectSet(tool.FSWrite),
		typed.Object(url, "url"), typed.Object(`"url":{"type":"string"},"final_url":{"type":"string"},"path":{"type":"string"},"sha256":{"type":"string"},"text":{"type":"string"}`, "url", "path", "sha256", "text"))
	recheck := own("recheck_source", "Check a source again",
		"Fetches an archived page again and says whether it still says the same, and for each finding that quotes it, whether the quote is in the copy and in the page of now.", effects,
		typed.Object(url, "url"), typed.Object(`"url":{"type":"string"},"state":{"enum":["same","changed","gone"]},"status":{"type":"integer"},"archived":{"type":"string","description":"when"},
			"sha256":{"type":"string","description":"of the archived text"},"sha256_now":{"type":"string"},
			"quotes":{"type":"array","items":{"type":"object","additionalProperties":false,"required":["finding","in_copy","in_page"],"properties":{
				"finding":{"type":"integer"},"in_copy":{"type":"boolean"},"in_page":{"type":"boolean"}}}}`, "url", "state", "status", "archived", "sha256", "quotes"))
	archive.Risk, recheck.Risk = tool.Medium, tool.Medium
	return []capability.Offer{
		capability.Own("archive_source", typed.New(archive, s.fetching(s.archive))),
		capability.Own("recheck_source", typed.New(recheck, s.fetching(s.recheck))),
	}
}

// fetch fetches the page of a call.
type fetch func(context.Context, permit.Permit) (webfetch.Page, error)

// fetching prepares a call that fetches one page.
func (s session) fetching(run func(context.Context, permit.Permit, string, fetch) (map[string]any, error)) func(tool.Env, sourceArgs) (permit.Prepared, error) {
	return func(_ tool.Env, a sourceArgs) (permit.Prepared, error) {
		actions, get, err := webfetch.Text(webfetch.Options{Secret: s.o.Secret}, a.URL)
		return permit.Prepared{Actions: actions, Run: func(ctx context.Context, p permit.Permit) (tool.Result, error) {
			out, err := run(ctx, p, a.URL, get)
			return tool.Result{Output: out}, err
		}}, err
	}
}

func (s session) archive(ctx context.Context, p permit.Permit, url string, get fetch) (map[string]any, error) {
	fs, err := s.Need()
	if err != nil {
		return nil, err
	}
	at := copyOf(url)
	known := fault.New(fault.Conflict, "the source is archived already, at %s", at).WithHint("recheck_source compares it with the page of now")
	if _, err := fs.Stat(ctx, p, at); !errors.Is(err, fault.NotFound) {
		if err == nil {
			err = known
		}
		return nil, err
	}
	page, err := get(ctx, p)
	switch {
	case err != nil:
		return nil, err
	case page.Status != 200:
		return nil, fault.New(fault.ToolFailed, "the source answered with status %d, so there is nothing to archive", page.Status)
	case page.Problem != "" || strings.TrimSpace(page.Content) == "":
		return nil, fault.New(fault.ToolFailed, "the source has no whole text to archive: %s", cmp.Or(page.Problem, "it is empty"))
	}
	c := archived{URL: url, Final: page.Final, SHA256: digest(page.Content), Text: page.Content}
	raw, err := json.MarshalIndent(c, "", "  ")
	if err != nil {
		return nil, fault.Wrap(fault.ToolFailed, err, "the copy cannot be written as JSON")
	}
	if _, _, err := fs.Write(ctx, p, at, append(raw, '\n'), capability.MustBeNew); err != nil {
		if errors.Is(err, fault.Conflict) {
			err = known
		}
		return nil, err
	}
	out := map[string]any{"url": url, "path": at, "sha256": c.SHA256, "text": c.Text}
	if c.Final != "" {
		out["final_url"] = c.Final
	}
	return out, nil
}

// readArchived reads an archived copy, and makes sure that it is as it was archived.
func (s session) readArchived(ctx context.Context, p permit.Permit, url string) (c archived, when time.Time, err error) {
	fs, err := s.Need()
	if err != nil {
		return c, when, err
	}
	raw, file, err := fs.Read(ctx, p, copyOf(url))
	switch {
	case errors.Is(err, fault.NotFound):
		return c, when, fault.New(fault.NotFound, "the source %q is not archived", flat(url)).WithHint("archive it with archive_source")
	case err != nil:
		return c, when, err
	}
	if json.Unmarshal(raw, &c) != nil || c.URL != url || c.SHA256 != digest(c.Text) || file.Version != 1 {
		return c, when, fault.New(fault.ToolFailed, "the copy at %s was changed since it was archived; the record of its archive_source call has the text", file.Path)
	}
	return c, file.Created, nil
}

func (s session) recheck(ctx context.Context, p permit.Permit, url string, get fetch) (map[string]any, error) {
	c, when, err := s.readArchived(ctx, p, url)
	if err != nil {
		return nil, err
	}
	all, _, err := s.load(ctx, p)
	if err != nil {
		return nil, err
	}
	page, err := get(ctx, p)
	if err != nil {
		return nil, err
	}
	out := map[string]any{"url": url, "state": changed, "status": page.Status, "archived": when.UTC().Format(time.RFC3339), "sha256": c.SHA256}
	now := flat(page.Content)
	switch {
	case page.Status == 404 || page.Status == 410:
		out["state"], now = gone, ""
	case page.Status != 200:
		return nil, fault.New(fault.ToolFailed, "the source answered with status %d, so it cannot be compared now", page.Status)
	case page.Problem != "":
		return nil, fault.New(fault.ToolFailed, "the source has no whole text to compare: %s", page.Problem)
	case now == flat(c.Text):
		out["state"] = same
	}
	if out["state"] != gone {
		out["sha256_now"] = digest(page.Content)
	}
	quotes := []any{}
	for _, f := range all {
		if f.Source == url && f.Quote != "" {
			quotes = append(quotes, map[string]any{"finding": f.Number, "in_copy": quoted(f.Quote, flat(c.Text)), "in_page": quoted(f.Quote, now)})
		}
	}
	out["quotes"] = quotes
	return out, nil
}

// quoted reports whether a text has a quote, however its lines are broken.
func quoted(quote, text string) bool { return strings.Contains(text, flat(quote)) }
