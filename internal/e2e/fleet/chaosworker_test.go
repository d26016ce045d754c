package fleet_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/remitrun/remit/internal/app"
	"github.com/remitrun/remit/internal/service/home"
	"github.com/remitrun/remit/internal/service/workers"
)

// carryOut is a worker. It joins with a token of the nodes' home the first time.
func carryOut(ctx context.Context, dir string) error {
	q := workers.RunRequest{URL: os.Getenv("REMIT_TEST_JOIN"), Told: func(event, detail string) { fmt.Println(event, detail) }}
	open := func(name string) (*app.App, error) {
		cfg, err := home.FromEnv([]string{"REMIT_HOME=" + filepath.Join(dir, name), "HOME=" + dir, "USER=ann"})
		if err != nil {
			return nil, err
		}
		return app.New(cfg, app.Own{})
	}
	if _, err := os.Stat(filepath.Join(dir, "far", "worker", "membership.pem")); err != nil {
		node, err := open("home")
		if err != nil {
			return err
		}
		if q.Token, err = node.Workers.Token(workers.TokenTerms{Name: "far", Life: time.Hour}); err != nil {
			return err
		}
		if err := node.Close(); err != nil {
			return err
		}
	}
	far, err := open("far")
	if err != nil {
		return err
	}
	q.Home = far.Home
	return workers.Run(ctx, q)
}

// newPolicy lets the nodes run commands on a worker, and asks about some requests.
func (c *chaos) newPolicy() {
	c.Helper()
	where := "where: remote\n"
	if c.link == nil {
		where = ""
	}
	text := "version: 1\nname: chaos\napi: {allow: [\"*\"]}\nmodels: {allow: [\"*\"]}\nnetwork: {allow: [\"" + c.world + "\"], ask: [\"" + c.world + "/ask/**\"]}\n" +
		"files: {read: {allow: [\"**\"]}}\ncommands: {allow: [\"curl **\"]}\n" + where +
		"delegate: {actions: [api, files.read, network, commands, models, tools], to: [\"*\"], depth: 8}\n"
	for name, text := range map[string]string{"policy.yaml": text, "hook.yaml": strings.Replace(text, "where: remote\n", "", 1)} { // a hook holds no writes
		if err := os.WriteFile(filepath.Join(c.dir, name), []byte(text), 0o600); err != nil {
			c.Fatal(err)
		}
	}
}

// newWorker starts the worker, which joins the first node over its wire. Without curl there is
// none, and no commands.
func (c *chaos) newWorker() *node {
	c.Helper()
	if _, err := exec.LookPath("curl"); err != nil {
		if c.far == nil {
			c.Logf("LEFT OUT: no commands on a worker, because %v", err)
		}
		return nil
	}
	far := c.child("connected ", "REMIT_TEST_WORKER="+c.dir, "REMIT_TEST_JOIN=https://"+c.link.addr)
	if far.url == "" {
		<-far.over
		c.Fatalf("a worker does not begin: %s", far.last)
	}
	return far
}

// offerCommands queues a run whose commands act from the worker.
func (c *chaos) offerCommands() {
	c.Helper()
	if c.far == nil {
		return
	}
	prefix := c.next("w")
	if id := c.offerPlan(c.token, prefix, `{}`, `{tool: shell.run, args: {argv: [curl, -sSf, -X, POST, %q]}}`); id != "" {
		c.work.runs[prefix] = id
	}
}

// atCommand waits for the effect of a command on the worker.
func (c *chaos) atCommand() bool {
	c.Helper()
	if c.far == nil {
		return false
	}
	count := func() (n int) {
		c.mu.Lock()
		defer c.mu.Unlock()
		for path := range c.effects {
			if strings.HasPrefix(path, "/w") {
				n++
			}
		}
		return n
	}
	began, before := time.Now(), count()
	c.offerCommands()
	c.until("a command on the worker", func() bool {
		if c.mend(); time.Since(began) > lease { // the second node, to which it is not connected, took the runs
			c.offerCommands()
			began = time.Now()
		}
		return count() > before
	})
	return true
}

func (c *chaos) killWorker() {
	c.Helper()
	if c.atCommand() {
		c.far.kill()
	}
}

func (c *chaos) partWorker() {
	c.Helper()
	if !c.atCommand() {
		return
	}
	c.link.cut(toServer, toNode)
	c.sleep(lease/4, 8*lease) // a permit token ends after six seconds
	if c.rnd.IntN(2) == 0 {
		c.link.reset()
	} else {
		c.link.heal() // renewals, results and connections of commands come late
	}
}

// giveTwice makes both nodes start the same runs: it delays all starts until each node has
// looked at the queue.
func (c *chaos) giveTwice() {
	c.Helper()
	c.db.Count(c, c.db.Made(c.dir), "SELECT count(pg_sleep(0.6 * id)) FROM (SELECT id FROM log FOR UPDATE) l")
}

// offerAsked offers turns whose call waits for a person, and says what becomes of each
// question.
func (c *chaos) offerAsked() {
	c.Helper()
	for _, how := range []string{"approve", "deny", "withdraw"} {
		prefix := c.next("ask/" + how)
		if id := c.offerTurn(c.token, prefix, 1); id != "" {
			c.work.asked[prefix] = id
			if how != "approve" {
				c.work.most[prefix] = 0
			}
		}
	}
}

// answer answers the questions that wait. To withdraw one, the turn is cancelled while its call
// waits; an approval that comes afterwards must have no effect.
func (c *chaos) answer() {
	c.Helper()
	items, _ := c.try("GET", "/v1/approvals?limit=100", "", c.token)["items"].([]any)
	for _, i := range items {
		q, _ := i.(map[string]any)
		asks, _ := q["asks"].(map[string]any)
		args, _ := asks["args"].(map[string]any)
		url, _ := args["url"].(string)
		if ours(strings.TrimPrefix(url, c.world)) {
			continue // a client answers it
		}
		prefix := strings.TrimSuffix(strings.TrimPrefix(url, c.world), "0")
		how, id := "approve", fmt.Sprint(q["id"])
		switch {
		case strings.HasPrefix(prefix, "/ask/deny"):
			how = "deny"
		case strings.HasPrefix(prefix, "/ask/withdraw") && c.try("POST", "/v1/sessions/"+c.work.asked[prefix]+"/cancel", "{}", c.token) == nil:
			continue
		}
		if c.try("POST", "/v1/approvals/"+id+"/"+how, "{}", c.token) != nil {
			c.work.answers++
		}
	}
}
