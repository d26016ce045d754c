//go:build linux && (amd64 || arm64)

package remote_test

import (
	"bufio"
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/remitrun/remit/internal/authority/permit"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/confine/changeset"
	"github.com/remitrun/remit/internal/confine/remote"
	"github.com/remitrun/remit/internal/confine/remote/tree"
	"github.com/remitrun/remit/internal/confine/remote/wire"
	"github.com/remitrun/remit/internal/confine/remote/worker"
	"github.com/remitrun/remit/internal/confine/sandbox"
)

// liar connects a worker whose answers are the test's.
func (w *world) liar(answer func(rw http.ResponseWriter, body *bufio.Reader)) {
	w.Helper()
	_ = w.conn.Close()
	for len(w.hub.Workers()) > 0 {
		time.Sleep(time.Millisecond)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /missing", func(rw http.ResponseWriter, _ *http.Request) { _ = wire.Write(rw, []string{}) })
	mux.HandleFunc("POST /calls/{id}", func(rw http.ResponseWriter, r *http.Request) { answer(rw, bufio.NewReader(r.Body)) })
	s := &http.Server{Handler: mux, Protocols: new(http.Protocols), ReadHeaderTimeout: time.Minute}
	s.Protocols.SetUnencryptedHTTP2(true)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(w.T, err)
	go func() { _ = s.Serve(l) }()
	conn, err := net.Dial("tcp", l.Addr().String())
	must(w.T, err)
	w.conn = conn
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		w.hub.Attach(w.Context(), conn, remote.Identity{Name: "liar", Key: make([]byte, ed25519.PublicKeySize)})
	}()
	w.Cleanup(func() { _ = s.Close(); _ = conn.Close(); <-ended })
	for len(w.hub.Workers()) == 0 {
		time.Sleep(time.Millisecond)
	}
}

func file(text string) changeset.Node {
	h := sha256.Sum256([]byte(text))
	return changeset.Node{Type: changeset.File, Mode: 0o644, Size: int64(len(text)), Hash: hex.EncodeToString(h[:])}
}

func TestALyingWorkerChangesNothing(t *testing.T) {
	link := func(target string) changeset.Node { return changeset.Node{Type: changeset.Link, Target: target} }
	folder := changeset.Node{Type: changeset.Folder, Mode: 0o755}
	tests := map[string]struct {
		changes  []changeset.Change
		contents string
		code     error
		says     string
	}{
		"out of the workspace":     {[]changeset.Change{{Path: "../evil", To: file("x")}}, "x", fault.ToolFailed, "is not a name"},
		"an absolute path":         {[]changeset.Change{{Path: "/etc/evil", To: file("x")}}, "x", fault.ToolFailed, "is not a name"},
		"a dot in the middle":      {[]changeset.Change{{Path: "out/../src/a.txt", To: file("x")}}, "x", fault.ToolFailed, "is not a name"},
		"a control character":      {[]changeset.Change{{Path: "out/\x1b[2J", To: file("x")}}, "x", fault.ToolFailed, "control character"},
		"another base":             {[]changeset.Change{{Path: "src/a.txt", From: file("not this"), To: file("x")}}, "x", fault.ToolFailed, "was not what the worker says"},
		"a base that is not there": {[]changeset.Change{{Path: "out/new", From: file("x"), To: file("y")}}, "y", fault.ToolFailed, "was not what the worker says"},
		"over what was not sent":   {[]changeset.Change{{Path: "src/x.secret", To: file("x")}}, "x", fault.Conflict, "changed in the workspace"},
		"another content":          {[]changeset.Change{{Path: "out/new", To: file("good")}}, "evil", fault.ToolFailed, "does not have its digest"},
		"too little content":       {[]changeset.Change{{Path: "out/new", To: file("good")}}, "go", fault.Interrupted, "may or may not"},
		"a huge file":              {[]changeset.Change{{Path: "out/new", To: changeset.Node{Type: changeset.File, Size: 1 << 40, Hash: file("").Hash}}}, "", fault.ToolFailed, "no valid digest"},
		"too much for the run":     {[]changeset.Change{{Path: "out/new", To: changeset.Node{Type: changeset.File, Size: 1 << 30, Hash: file("").Hash}}}, "", fault.LimitReached, ""},
		"a link that leads out":    {[]changeset.Change{{Path: "out/l", To: link("../../etc")}}, "", fault.ToolFailed, "leads out"},
		"an absolute link":         {[]changeset.Change{{Path: "out/l", To: link("/etc/passwd")}}, "", fault.ToolFailed, "leads to"},
		"through its own link":     {[]changeset.Change{{Path: "out/l", To: link("../src")}, {Path: "out/l/x", To: file("x")}}, "x", nil, ""},
		"a set-user-ID file":       {[]changeset.Change{{Path: "out/s", To: changeset.Node{Type: changeset.File, Mode: 0o4755, Hash: file("").Hash}}}, "", fault.ToolFailed, "has the mode"},
		"a device":                 {[]changeset.Change{{Path: "out/d", To: changeset.Node{Type: changeset.Special}}}, "", fault.ToolFailed, "is of the type"},
		"twice the same":           {[]changeset.Change{{Path: "out/n", To: file("x")}, {Path: "out/n", To: file("x")}}, "xx", fault.ToolFailed, "out of order"},
		"what no policy allows":    {[]changeset.Change{{Path: "evil", To: folder}, {Path: "evil/x", To: file("x")}, {Path: "remit.yaml", To: file("x")}}, "xx", nil, ""},
		"a hook of git":            {[]changeset.Change{{Path: "src/.envrc", To: file("x")}}, "x", nil, ""},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, map[string]string{"src/a.txt": "alpha", "src/x.secret": "s", "out/k": ""})
			w.liar(func(rw http.ResponseWriter, _ *bufio.Reader) {
				_ = wire.Write(rw, wire.Result{Started: true, Changes: tc.changes})
				_, _ = io.WriteString(rw, tc.contents)
			})
			w.start(remotePolicy)
			_, err := w.sh("true")
			if tc.code == nil && err != nil || tc.code != nil && (!errors.Is(err, tc.code) || !strings.Contains(err.Error(), tc.says)) {
				t.Errorf("got %v, want %v with %q", err, tc.code, tc.says)
			}
			for p, c := range w.changes() {
				if !(name == "through its own link" && p == "out/l") {
					t.Errorf("%s was taken over: %+v", p, c)
				}
			}
		})
	}
}

func TestWhatAWorkerSaysIsBounded(t *testing.T) {
	w := newWorld(t, map[string]string{"out/k": ""})
	w.liar(func(rw http.ResponseWriter, _ *bufio.Reader) {
		var o sandbox.Outcome
		o.Stdout.Data, o.Stdout.Total = bytes.Repeat([]byte("x"), 3<<20), -5
		for range 1000 {
			o.Notes = append(o.Notes, strings.Repeat("\xff", 10_000))
		}
		o.Limits = map[string]string{"a\x1b": "x", "cpu": "1"}
		o.Connections = []sandbox.Connection{{}}
		o.Changed = &[]string{}
		_ = wire.Write(rw, wire.Result{Outcome: o, Started: true})
	})
	w.start(remotePolicy)
	out, err := w.sh("true")
	must(t, err)
	if len(out.Stdout.Data) != 1<<20 || !out.Stdout.Truncated && out.Stdout.Total < 1<<20 || len(out.Notes) > 25 || len(out.Limits) != 1 || len(out.Connections) != 0 {
		t.Errorf("got %d bytes of %d, %d notes, limits %v, %d connections", len(out.Stdout.Data), out.Stdout.Total, len(out.Notes), out.Limits, len(out.Connections))
	}
	if out.Changed != nil {
		t.Error("a worker tells which files of this machine were changed")
	}
	for _, n := range out.Notes {
		if len(n) > 2100 || strings.Contains(n, "\xff") {
			t.Errorf("a note of %d bytes", len(n))
		}
	}
	w.liar(func(rw http.ResponseWriter, _ *bufio.Reader) {
		rw.WriteHeader(http.StatusUnprocessableEntity)
		_ = json.NewEncoder(rw).Encode(wire.Refusal{Code: fault.StoreCorrupt, Message: strings.Repeat("e", 60_000)})
	})
	if _, err = w.sh("true"); !errors.Is(err, fault.ToolFailed) || len(err.Error()) > 2500 {
		t.Errorf("a refusal with a code of the ledger's: %d bytes, %v", len(err.Error()), fault.CodeOf(err))
	}
}

// direct is a connection to a real worker without a node, to say what no node does.
type direct struct {
	*testing.T

	dir    string
	node   ed25519.PrivateKey
	key    ed25519.PrivateKey
	worker *worker.Worker
	client *http.Client
}

func newDirect(t *testing.T) *direct {
	t.Helper()
	d := &direct{T: t, dir: t.TempDir(), node: ed25519.NewKeyFromSeed(bytes.Repeat([]byte{1}, 32)), key: ed25519.NewKeyFromSeed(bytes.Repeat([]byte{2}, 32))}
	d.begin()
	return d
}

// begin starts the worker.
func (d *direct) begin() {
	d.Helper()
	var err error
	d.worker, err = worker.New(worker.Config{Dir: d.dir, Key: d.key, Node: d.node.Public().(ed25519.PublicKey)})
	must(d.T, err)
	here, there := tcpPair(d.T)
	far := d.worker
	ended := make(chan struct{})
	go func() { defer close(ended); far.Serve(d.Context(), there) }()
	tr := &http.Transport{Protocols: new(http.Protocols), DisableCompression: true}
	tr.Protocols.SetUnencryptedHTTP2(true)
	tr.DialContext = dialed(here)
	d.client = &http.Client{Transport: tr}
	d.Cleanup(func() { _ = here.Close(); <-ended; must(d.T, far.Close()) })
}

func (d *direct) token(change func(*permit.Work)) permit.Token {
	d.Helper()
	empty := []byte(`{"unix_mode":493}`)
	h := tree.DigestOf(empty)
	res := d.do(http.MethodPut, "/blobs/"+h.Hash, bytes.NewReader(empty))
	_ = res.Body.Close()
	cmd, err := json.Marshal(wire.Command{Argv: []string{"/bin/sh", "-c", "echo ran; sleep 60"}, Shell: true, Dir: "/w"})
	must(d.T, err)
	w := permit.Work{Intent: permit.Intent{Run: uuid.NewString(), Call: 1, Seq: 3, Tool: tool.Digest{1}}, Ledger: "l", Leaf: tool.Digest{2}, Digest: tool.Digest{3}, ToolID: "shell.run",
		Policies: []permit.Policy{{File: "p.yaml", Source: "version: 1\nwhere: remote\nfiles: {read: {allow: ['**']}}\ncommands: {allow: ['**']}\n"}},
		Command:  cmd, Tree: h.Hash, TreeSize: h.Size, Worker: d.key.Public().(ed25519.PublicKey), Node: "n", NotAfter: time.Now().Add(40 * time.Second)}
	w.Bound.Workspace = "/w"
	w.Limits.Disk = 1 << 20
	if change != nil {
		change(&w)
	}
	tok, err := permit.SignWork(d.node, w)
	must(d.T, err)
	return tok
}

func (d *direct) do(method, path string, body io.Reader) *http.Response {
	d.Helper()
	req, err := http.NewRequestWithContext(d.Context(), method, "http://worker"+path, body)
	must(d.T, err)
	res, err := d.client.Do(req)
	must(d.T, err)
	return res
}

// begins presents a token, and gives the refusal, or the result.
func (d *direct) begins(t permit.Token, id string) (refused wire.Refusal, result wire.Result) {
	d.Helper()
	pr, pw := io.Pipe()
	go func() { _ = wire.Write(pw, wire.Start{Token: t}) }() // it is never renewed
	if id == "" {
		var w permit.Work
		must(d.T, json.Unmarshal(t.Body, &w))
		id = w.Run + "-1"
	}
	res := d.do(http.MethodPost, "/calls/"+id, pr)
	defer func() { _, _ = pw.Close(), res.Body.Close() }()
	if res.StatusCode != http.StatusOK {
		must(d.T, json.NewDecoder(res.Body).Decode(&refused))
		return refused, result
	}
	must(d.T, wire.Read(bufio.NewReader(res.Body), &result))
	return refused, result
}

func TestAWorkerRefusesOtherTokens(t *testing.T) {
	d := newDirect(t)
	forged := d.token(nil)
	forged.Signature = bytes.Clone(forged.Signature)
	forged.Signature[0] ^= 1
	for name, tc := range map[string]struct {
		t    permit.Token
		id   string
		want string
	}{
		"forged":             {forged, "", "did not sign"},
		"another worker's":   {d.token(func(w *permit.Work) { w.Worker = []byte("other") }), "", "another worker"},
		"expired":            {d.token(func(w *permit.Work) { w.NotAfter = time.Now().Add(-time.Second) }), "", "expired"},
		"for another call":   {d.token(nil), uuid.NewString() + "-1", "another call"},
		"a path as the run":  {d.token(func(w *permit.Work) { w.Run = "../../../../../../etc/passwd/aaaaaaaaaa" }), "x-1", "another call"},
		"a tree not sent":    {d.token(func(w *permit.Work) { w.Tree = strings.Repeat("0", 64) }), "", "not sent"},
		"no digest":          {d.token(func(w *permit.Work) { w.Tree = "../used" }), "", "not a digest"},
		"policies say local": {d.token(func(w *permit.Work) { w.Policies[0].Source = "version: 1\nwhere: local\n" }), "", "do not allow commands on workers"},
	} {
		r, res := d.begins(tc.t, tc.id)
		if said := r.Message + res.Message; !strings.Contains(said, tc.want) || len(res.Outcome.Stdout.Data) > 0 {
			t.Errorf("%s: %q, want %q", name, said, tc.want)
		}
	}
}

func TestWithoutRenewalTheWorkerEndsTheCommand(t *testing.T) {
	d := newDirect(t)
	tok := d.token(func(w *permit.Work) { w.NotAfter = time.Now().Add(3 * time.Second) })
	began := time.Now()
	_, res := d.begins(tok, "")
	if !strings.Contains(res.Message, "did not renew") || !res.Started || time.Since(began) > 40*time.Second {
		t.Errorf("after %s: %+v", time.Since(began), res)
	}
	if r, _ := d.begins(tok, ""); r.Code != fault.GrantInvalid {
		t.Errorf("the same token began again: %+v", r)
	}
	again := d.token(func(w *permit.Work) {
		must(t, json.Unmarshal(tok.Body, w))
		w.NotAfter = time.Now().Add(40 * time.Second)
	})
	if r, _ := d.begins(again, ""); !strings.Contains(r.Message, "used before") {
		t.Errorf("the call began again with a new token: %+v", r)
	}
	d.begin() // as after a crash: the list of used tokens is on the disk
	again = d.token(func(w *permit.Work) {
		must(t, json.Unmarshal(tok.Body, w))
		w.NotAfter = time.Now().Add(40 * time.Second)
	})
	if r, _ := d.begins(again, ""); !strings.Contains(r.Message, "used before") {
		t.Errorf("the call began again after a restart: %+v", r)
	}
}

func TestSentContentMustHaveItsDigest(t *testing.T) {
	d := newDirect(t)
	for _, hash := range []string{tree.DigestOf([]byte("a")).Hash, "..%2fused", strings.Repeat("A", 64)} {
		res := d.do(http.MethodPut, "/blobs/"+hash, strings.NewReader("b"))
		_ = res.Body.Close()
		if res.StatusCode == http.StatusNoContent {
			t.Errorf("%s was taken", hash)
		}
	}
	if left, err := os.ReadDir(filepath.Join(d.dir, "blobs")); err != nil || len(left) != 0 {
		t.Errorf("the cache has %v, %v", left, err)
	}
	for name, dir := range map[string]string{
		"a path":         `{"files":[{"name":"../x","digest":{"hash":"H","size_bytes":0},"unix_mode":420}],"unix_mode":493}`,
		"a link out":     `{"symlinks":[{"name":"l","target":"../../x"}],"unix_mode":493}`,
		"a name twice":   `{"files":[{"name":"l","digest":{"hash":"H","size_bytes":0},"unix_mode":420}],"symlinks":[{"name":"l","target":"x"}],"unix_mode":493}`,
		"set-user-ID":    `{"files":[{"name":"l","digest":{"hash":"H","size_bytes":0},"unix_mode":2541}],"unix_mode":493}`,
		"not a document": `[]`,
	} {
		none := tree.DigestOf(nil)
		b := []byte(strings.ReplaceAll(dir, "H", none.Hash))
		for _, c := range [][]byte{nil, b} {
			res := d.do(http.MethodPut, "/blobs/"+tree.DigestOf(c).Hash, bytes.NewReader(c))
			_ = res.Body.Close()
		}
		h := tree.DigestOf(b)
		if r, res := d.begins(d.token(func(w *permit.Work) { w.Tree, w.TreeSize = h.Hash, h.Size }), ""); !strings.Contains(r.Message, "refused") || res.Started {
			t.Errorf("%s: %+v", name, r)
		}
	}
}
