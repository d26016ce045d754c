package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/remitrun/remit/internal/authority/grant"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/call/standing"
	"github.com/remitrun/remit/internal/record/ledger"
	"github.com/remitrun/remit/internal/record/store"
	"github.com/remitrun/remit/internal/record/store/postgres"
	"github.com/remitrun/remit/internal/record/store/postgres/postgrestest"
)

const (
	fleetTime  = 3 * time.Second // of each measurement
	fleetLease = time.Second
)

// fleetNode names the home and the URL of a node that this program is started as.
const fleetNode = "REMIT_BENCH_NODE"

// fleet measures several nodes on one PostgreSQL. A call is a durable intent and an outcome;
// it is compared with a bare durable insert in the same run.
func (b *bench) fleet() error {
	pg, stop, err := postgrestest.New("-c fsync=on -c full_page_writes=on -c jit=on -c autovacuum=on -c max_connections=400")
	if err != nil {
		return err
	}
	defer stop()
	one, err := b.bareInserts(pg, 1)
	if err != nil {
		return err
	}
	many, err := b.bareInserts(pg, 64)
	if err != nil {
		return err
	}
	b.table.note("fleet: bare durable inserts, 1 and 64 callers", fmt.Sprintf("%s p50, %.0f/s", round(one.p50), many.rate))
	lone, err := b.fleetCalls(pg, 1, 1)
	if err != nil {
		return err
	}
	b.fleetRow("fleet: one caller, a call over a bare insert, p50", "≤ 2.5×", float64(lone.p50)/float64(one.p50), 2.5, true)
	two, err := b.fleetCalls(pg, 2, 64)
	if err != nil {
		return err
	}
	b.fleetRow(fmt.Sprintf("fleet: calls/s, 64 callers, 2 nodes (%.0f/s)", two.rate), "≥ 2.5×", two.rate/many.rate, 2.5, false)
	eight, err := b.fleetCalls(pg, 8, 64)
	if err != nil {
		return err
	}
	b.fleetRow("fleet: 8 nodes against 2", "≥ 0.5×", eight.rate/two.rate, 0.5, false)
	crowd, err := b.fleetCalls(pg, 2, 1024)
	if err != nil {
		return err
	}
	b.table.add("fleet: calls/s, 1,024 callers, 2 nodes", "> 20,000 at a quiet time", fmt.Sprintf("%.0f", crowd.rate), crowd.rate > 20_000)
	if err := b.fleetReactions(pg); err != nil {
		return err
	}
	if err := b.execute(pg.URL("public"), "CREATE SCHEMA followed"); err != nil {
		return err
	}
	if err := b.followed("PostgreSQL", "--db", pg.URL("followed")); err != nil {
		return err
	}
	if err := b.fleetDoor(pg); err != nil {
		return err
	}
	return b.fleetStandby(pg, many.rate)
}

func (b *bench) fleetRow(what, bar string, got, limit float64, most bool) {
	b.table.add(what, bar, fmt.Sprintf("%.1f×", got), most == (got <= limit) || got == limit)
}

func round(d time.Duration) string { return d.Round(10 * time.Microsecond).String() }

// fleetStandby measures calls while commits wait for a standby.
func (b *bench) fleetStandby(pg *postgrestest.Server, bare float64) error {
	_, stop, err := pg.Copy()
	if err != nil {
		return err
	}
	defer stop()
	for _, statement := range []string{"ALTER SYSTEM SET synchronous_standby_names = '*'", "SELECT pg_reload_conf()"} {
		if err := b.execute(pg.URL("public"), statement); err != nil {
			return err
		}
	}
	got, err := b.fleetCalls(pg, 2, 64)
	if err != nil {
		return err
	}
	b.fleetRow("fleet: the same with a synchronous standby", "≥ 1×", got.rate/bare, 1, false)
	return nil
}

func (b *bench) execute(url, statement string) error {
	c, err := pgx.Connect(b.ctx, url)
	if err != nil {
		return err
	}
	_, err = c.Exec(b.ctx, statement)
	return errors.Join(err, c.Close(b.ctx))
}

// speed is how fast something went.
type speed struct {
	rate float64 // in a second
	p50  time.Duration
}

// during has callers do something again and again for fleetTime.
func during(callers int, do func(caller int) error) (speed, error) {
	var mu sync.Mutex
	var took []time.Duration
	var errs []error
	var all sync.WaitGroup
	end := time.Now().Add(fleetTime)
	for i := range callers {
		all.Go(func() {
			var own []time.Duration
			var err error
			for err == nil && time.Now().Before(end) {
				began := time.Now()
				err = do(i)
				own = append(own, time.Since(began))
			}
			mu.Lock()
			defer mu.Unlock()
			took, errs = append(took, own...), append(errs, err)
		})
	}
	all.Wait()
	slices.Sort(took)
	return speed{float64(len(took)) / fleetTime.Seconds(), took[len(took)/2]}, errors.Join(errs...)
}

// bareInserts inserts rows as long as an intent, each durably by itself.
func (b *bench) bareInserts(pg *postgrestest.Server, callers int) (speed, error) {
	if err := b.execute(pg.URL("public"), "CREATE TABLE IF NOT EXISTS bare(id bigserial PRIMARY KEY, data bytea NOT NULL)"); err != nil {
		return speed{}, err
	}
	conns := make([]*pgx.Conn, callers)
	for i := range conns {
		var err error
		if conns[i], err = pgx.Connect(b.ctx, pg.URL("public")); err != nil {
			return speed{}, err
		}
		defer func() { _ = conns[i].Close(b.ctx) }()
	}
	data := make([]byte, 400)
	return during(callers, func(i int) error {
		_, err := conns[i].Exec(b.ctx, "INSERT INTO bare(data) VALUES($1)", data)
		return err
	})
}

// nodes opens nodes of one new ledger.
func (b *bench) nodes(pg *postgrestest.Server, count int) (nodes []*postgres.Store, o postgres.Options, err error) {
	schema := "f" + strings.ReplaceAll(uuid.NewString(), "-", "")
	if err := b.execute(pg.URL("public"), "CREATE SCHEMA "+schema); err != nil {
		return nil, o, err
	}
	o = postgres.Options{Home: filepath.Join(b.dir, schema), URL: pg.URL(schema), Lease: time.Minute}
	for range count {
		s, err := postgres.Open(b.ctx, o)
		if err != nil {
			return nodes, o, err
		}
		nodes = append(nodes, s)
	}
	return nodes, o, nil
}

// fleetCalls makes calls on several nodes, each caller in a run of its own.
func (b *bench) fleetCalls(pg *postgrestest.Server, count, callers int) (got speed, err error) {
	nodes, _, err := b.nodes(pg, count)
	defer func() {
		for _, n := range nodes {
			err = errors.Join(err, n.Close())
		}
	}()
	if err != nil {
		return got, err
	}
	runs, calls := make([]ledger.Seq, callers), make([]uint32, callers)
	for i := range runs {
		id := uuid.Must(uuid.NewV7())
		if runs[i], err = nodes[i%count].Append(b.ctx, ledger.Entry{Event: ledger.Event{Kind: ledger.RunStarted, At: 1, ID: id[:], Mode: ledger.Live, Name: "bench", Principal: "user:bench"}}); err != nil {
			return got, err
		}
	}
	args := ledger.Payload{ledger.PartArgs: []byte(`{"path":"report.txt","content":"` + strings.Repeat("x", 200) + `"}`)}
	return during(callers, func(i int) error {
		calls[i]++
		at := ledger.Event{At: 2, Run: runs[i], Call: calls[i], Timeline: []int64{1}}
		intent, outcome := at, at
		intent.Kind, intent.Tool, intent.Digest = ledger.CallIntent, "fs.write", make([]byte, 32)
		outcome.Kind, outcome.Status, outcome.Timeline = ledger.CallOutcome, tool.Completed, []int64{1, 2, 3}
		if _, err := nodes[i%count].Append(b.ctx, ledger.Entry{Event: intent, Payload: args, Durable: true}); err != nil {
			return err
		}
		_, err := nodes[i%count].Append(b.ctx, ledger.Entry{Event: outcome})
		return err
	})
}

// fleetReactions measures how long a node takes to see that another one died, or revoked a
// grant: the longest of several times.
func (b *bench) fleetReactions(pg *postgrestest.Server) (err error) {
	nodes, o, err := b.nodes(pg, 2)
	defer func() {
		for _, n := range nodes {
			err = errors.Join(err, n.Close())
		}
	}()
	if err != nil {
		return err
	}
	var longest time.Duration
	for range 5 {
		took, err := b.takeover(nodes[0], o)
		if err != nil {
			return err
		}
		longest = max(longest, took)
	}
	b.table.add(fmt.Sprintf("fleet: takeover of a killed node's turn, lease %s, longest of 5", fleetLease), "≤ lease + 0.5 s", longest.Round(time.Millisecond).String(), longest <= fleetLease+500*time.Millisecond)
	there, here := standing.New(standing.Options{Grants: nodes[0]}), standing.New(standing.Options{Grants: nodes[1]})
	defer func() { err = errors.Join(err, there.Close(), here.Close()) }()
	longest = 0
	for range 10 {
		id := uuid.New()
		if err := nodes[0].PutGrant(b.ctx, store.GrantRecord{ID: id, Holder: "user:bench", Issued: time.Now()}); err != nil {
			return err
		}
		var g grant.Grant
		call, release := here.Watch(b.ctx, g.Derive(grant.Terms{ID: id, Holder: "user:bench", Kept: true}))
		began := time.Now()
		if err := there.SetStanding(b.ctx, store.StandingChange{Grant: id, To: store.Revoked, By: "user:bench", At: began}); err != nil {
			release()
			return err
		}
		<-call.Done()
		longest = max(longest, time.Since(began))
		release()
	}
	b.table.add("fleet: a revocation ends a call on another node, longest of 10", "≤ 250 ms", longest.Round(time.Millisecond).String(), longest <= 250*time.Millisecond)
	return nil
}

// takeover kills a node that has a turn, and returns when another one has it.
func (b *bench) takeover(to *postgres.Store, o postgres.Options) (time.Duration, error) {
	self, err := os.Executable()
	if err != nil {
		return 0, err
	}
	cmd := exec.CommandContext(b.ctx, self)
	cmd.Env = append(os.Environ(), fleetNode+"="+o.Home+" "+o.URL)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return 0, err
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	session, perr := uuid.Parse(strings.TrimSpace(line))
	if err := errors.Join(err, perr, cmd.Process.Kill()); err != nil {
		return 0, err
	}
	began := time.Now()
	_ = cmd.Wait() // it was killed
	for {
		asked, dead, err := to.PollTurns(b.ctx)
		if err != nil {
			return 0, err
		}
		if i := slices.IndexFunc(asked, func(a store.AskedTurn) bool { return a.Session == session }); i >= 0 {
			return time.Since(began), to.EndTurn(b.ctx, session, asked[i].Epoch)
		}
		if !dead {
			time.Sleep(100 * time.Millisecond) // as a service does
			continue
		}
		if _, err := to.Recover(b.ctx); err != nil {
			return 0, err
		}
		if err := to.AdoptTurns(b.ctx); err != nil {
			return 0, err
		}
	}
}

// serveNode is a node that takes a turn, and waits to be killed.
func serveNode(what string) error {
	ctx := context.Background()
	dir, url, _ := strings.Cut(what, " ")
	s, err := postgres.Open(ctx, postgres.Options{Home: dir, URL: url, Lease: fleetLease})
	if err != nil {
		return err
	}
	session := uuid.New()
	if _, err := s.TakeTurn(ctx, session, nil); err != nil {
		return err
	}
	fmt.Println(session)
	time.Sleep(time.Minute)
	return s.Close()
}
