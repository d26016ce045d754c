package tables

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"strings"

	"github.com/google/uuid"

	"github.com/remitrun/remit/internal/authority/grant"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/record/ledger"
	"github.com/remitrun/remit/internal/record/store"
)

const (
	selectLeased  = "SELECT node, what, run, amount, settled, mac FROM leases WHERE node = ? AND what = ?"
	selectBudgets = "SELECT node, what, lim, spent, mac FROM budgets WHERE node = ? ORDER BY what"
	selectLeases  = "SELECT node, what, run, amount, settled, mac FROM leases WHERE run = ?"
)

// OpenBudget implements store.Budgets. It makes a row only while the whole table
// matches its seal, so that a removed row is not made anew.
func (s *Store) OpenBudget(ctx context.Context, node uuid.UUID, b grant.Budgets) error {
	if s.readOnly {
		return s.ErrReadOnly()
	}
	change := false
	for _, l := range b.Limits() {
		row, err := s.readSealed(ctx, s.read, tableBudgets, node[:], l.What)
		if err != nil {
			return s.fault(err, "a budget cannot be read")
		}
		change = change || row == nil || row.int(budgetLimit) > l.Most
	}
	if !change {
		return nil
	}
	r := newRequest()
	r.durable = true
	var rows []sealedRow
	r.check = func(ctx context.Context, w *writer) error {
		rows = rows[:0]
		for _, l := range b.Limits() {
			row, err := w.wholeRow(ctx, tableBudgets, node[:], l.What)
			if err != nil {
				return err
			}
			switch {
			case row == nil:
				row = sealedRow{budgetNode: node[:], budgetWhat: l.What, budgetLimit: l.Most, budgetSpent: int64(0)}
			case row.int(budgetLimit) <= l.Most:
				continue
			default:
				row[budgetLimit] = l.Most
			}
			rows = append(rows, row)
		}
		return nil
	}
	r.apply = func(ctx context.Context, w *writer, _ ledger.Seq) error { return w.putAll(ctx, tableBudgets, rows) }
	return s.submit(ctx, r)
}

// eachOfWhole gives the rows of a whole table, after which it compares the table with its seal.
func (s *Store) eachOfWhole(ctx context.Context, t *sealedTable, take func(sealedRow) error) error {
	err := s.inSnapshot(ctx, func(conn *sql.Conn) error { return s.wholeTable(ctx, conn, t, take) })
	return s.fault(err, "the ledger cannot be read")
}

func (w *writer) putAll(ctx context.Context, t *sealedTable, rows []sealedRow) error {
	for _, row := range rows {
		if err := w.put(ctx, t, row); err != nil {
			return err
		}
	}
	return nil
}

// Lease implements store.Budgets.
func (s *Store) Lease(ctx context.Context, run ledger.Seq, asks []store.Lease) ([]store.Lease, error) {
	got, err := s.lease(ctx, run, asks)
	if !errors.Is(err, fault.BudgetSpent) {
		return got, err
	}
	if _, rerr := s.db.Recover(ctx); rerr != nil {
		return nil, rerr
	}
	if rerr := s.reclaim(ctx); rerr != nil { // also of runs that ended without returning their leases
		return nil, rerr
	}
	return s.lease(ctx, run, asks)
}

func (s *Store) lease(ctx context.Context, run ledger.Seq, asks []store.Lease) ([]store.Lease, error) {
	if s.readOnly {
		return nil, s.ErrReadOnly()
	}
	r := newRequest()
	r.durable = true
	var got []store.Lease
	var budgets, leases []sealedRow
	r.check = func(ctx context.Context, w *writer) error {
		got, budgets, leases = got[:0], budgets[:0], leases[:0]
		for _, a := range asks {
			budget, fresh, err := w.budget(ctx, a.Meter)
			if err != nil {
				return err
			}
			lease, err := w.leaseRow(ctx, a.Meter, run)
			if err != nil {
				return err
			}
			n, err := w.share(ctx, a, budget)
			if err != nil {
				return err
			}
			lease[leaseAmount] = lease.int(leaseAmount) + n
			got, leases = append(got, store.Lease{Meter: a.Meter, Want: n}), append(leases, lease)
			if fresh {
				budgets = append(budgets, budget)
			}
		}
		return nil
	}
	r.apply = func(ctx context.Context, w *writer, _ ledger.Seq) error {
		if err := w.putAll(ctx, tableBudgets, budgets); err != nil {
			return err
		}
		return w.putAll(ctx, tableLeases, leases)
	}
	if err := s.submit(ctx, r); err != nil {
		return nil, err
	}
	return got, nil
}

// budget returns a meter's row. The row of a single tool is made from the node's
// limit on each tool (fresh).
func (w *writer) budget(ctx context.Context, id store.MeterID) (row sealedRow, fresh bool, err error) {
	if row, err = w.wholeRow(ctx, tableBudgets, id.Node[:], id.What); err != nil || row != nil {
		return row, false, err
	}
	if strings.HasPrefix(id.What, grant.MeterEachTool) {
		if row, err = w.wholeRow(ctx, tableBudgets, id.Node[:], grant.MeterEachTool); err != nil {
			return nil, false, err
		}
	}
	if row == nil {
		return nil, false, fault.New(fault.StoreCorrupt, "the ledger keeps no budget of %s for grant %s", id.What, id.Node).
			ForOperator("remit verify names the removed records")
	}
	return sealedRow{budgetNode: id.Node[:], budgetWhat: id.What, budgetLimit: row.int(budgetLimit), budgetSpent: int64(0)}, true, nil
}

func (w *writer) leaseRow(ctx context.Context, id store.MeterID, run ledger.Seq) (sealedRow, error) {
	row, err := w.wholeRow(ctx, tableLeases, id.Node[:], id.What, int64(run))
	if row == nil && err == nil {
		row = sealedRow{leaseNode: id.Node[:], leaseWhat: id.What, leaseRun: int64(run), leaseAmount: int64(0), leaseSettled: int64(0)}
	}
	return row, err
}

// share returns the part of a limit that is granted.
func (w *writer) share(ctx context.Context, a store.Lease, budget sealedRow) (int64, error) {
	leases, err := w.wholeTable(ctx, tableLeases)
	if err != nil {
		return 0, err
	}
	leased := int64(0)
	for _, l := range leases.rows {
		if l.row.text(leaseWhat) == a.Meter.What && bytes.Equal(l.row.bytes(leaseNode), a.Meter.Node[:]) {
			leased += l.row.int(leaseAmount)
		}
	}
	left := budget.int(budgetLimit) - budget.int(budgetSpent) - leased
	if left < a.Least {
		return 0, fault.New(fault.BudgetSpent, "the %s of grant %s are used up", a.Meter.What, a.Meter.Node)
	}
	n := min(a.Want, max(0, left))
	return n + max(0, min(a.Spare, (left-n)/4)), nil
}

// Settle implements store.Budgets. A settlement lost in a power failure is
// restored from the run's events.
func (s *Store) Settle(ctx context.Context, run ledger.Seq, done []store.Settlement) error {
	if s.readOnly {
		return s.ErrReadOnly()
	}
	r := newRequest()
	var budgets, leases []sealedRow
	r.check = func(ctx context.Context, w *writer) error {
		budgets, leases = budgets[:0], leases[:0]
		for _, d := range done {
			if d.Spent < 0 || d.Return < 0 {
				return fault.New(fault.Internal, "a settlement of %d spent and %d returned", d.Spent, d.Return)
			}
			lease, err := w.leaseRow(ctx, d.Meter, run)
			if err != nil {
				return err
			}
			lease[leaseAmount] = max(0, lease.int(leaseAmount)-d.Spent-d.Return)
			lease[leaseSettled] = lease.int(leaseSettled) + d.Spent
			leases = append(leases, lease)
			if d.Spent == 0 {
				continue
			}
			budget, _, err := w.budget(ctx, d.Meter)
			if err != nil {
				return err
			}
			budget[budgetSpent] = budget.int(budgetSpent) + d.Spent
			budgets = append(budgets, budget)
		}
		return nil
	}
	r.apply = func(ctx context.Context, w *writer, _ ledger.Seq) error {
		if err := w.putAll(ctx, tableBudgets, budgets); err != nil {
			return err
		}
		return w.putAll(ctx, tableLeases, leases)
	}
	return s.submit(ctx, r)
}

// Spent implements store.Budgets.
func (s *Store) Spent(ctx context.Context, node uuid.UUID) ([]store.Meter, error) {
	var out []store.Meter
	err := each(ctx, s.read, selectBudgets, func(rows *sql.Rows) error {
		row, _, err := s.scanSealed(tableBudgets, rows.Scan)
		out = append(out, store.Meter{
			ID: store.MeterID{Node: node, What: row.text(budgetWhat)}, Limit: row.int(budgetLimit), Spent: row.int(budgetSpent),
		})
		return err
	}, node[:])
	for i := range out {
		if err == nil {
			err = each(ctx, s.read, selectLeased, func(rows *sql.Rows) error {
				row, _, err := s.scanSealed(tableLeases, rows.Scan)
				out[i].Leased += row.int(leaseAmount)
				return err
			}, node[:], out[i].ID.What)
		}
	}
	return out, s.fault(err, "a budget cannot be read")
}

// reclaim settles the leases of ended runs. The use that their events record is
// spent; the rest is free again. The table of runs only suggests which runs ended.
func (s *Store) reclaim(ctx context.Context) error {
	var runs []ledger.Seq
	err := each(ctx, s.read, "SELECT DISTINCT l.run FROM leases l JOIN runs r ON r.seq = l.run WHERE r.status != 0", func(rows *sql.Rows) error {
		var run ledger.Seq
		runs = append(runs, 0)
		err := rows.Scan(&run)
		runs[len(runs)-1] = run
		return err
	})
	for _, run := range runs {
		if err == nil {
			err = s.reclaimRun(ctx, run)
		}
	}
	return s.fault(err, "the leases of dead processes cannot be read")
}

// usedBy returns the use of an ended run's calls, from its events. The end counts the calls, so that
// one whose events were moved to another run is missed.
func (s *Store) usedBy(ctx context.Context, run ledger.Seq) (calls []takenBy, err error) {
	at, p, counted := map[uint32]int{}, ledger.NewProgress(run), false
	err = s.eachAuthentic(ctx, "run = ?", func(r *rawEvent) error {
		e, err := ledger.Decode(r.body)
		if err == nil {
			err = p.Add(r.seq, &e)
		}
		counted = counted || e.Kind == ledger.RunFinished && e.Tally() == p.Tally
		if err != nil || !e.Kind.OfCall() {
			return err
		}
		i, ok := at[e.Call]
		if !ok {
			i = len(calls)
			at[e.Call] = i
			calls = append(calls, takenBy{tool: e.Tool})
		}
		c := &calls[i]
		if len(e.Usage) > 0 {
			c.used = grant.AmountsOf(e.Usage)
		}
		c.cut = c.cut || e.Status == tool.StatusInterrupted
		return nil
	}, int64(run))
	if err == nil && !counted {
		err = fault.New(fault.StoreCorrupt, "the run %d is listed as ended in %q, but no event ended it with these calls", run, s.name).ForOperator("remit verify lists the changed records")
	}
	return calls, err
}

type takenBy struct {
	tool tool.ID
	used grant.Amounts // reserved, until an outcome records the use
	cut  bool          // the running time is unknown
}

func (s *Store) reclaimRun(ctx context.Context, run ledger.Seq) error {
	calls, err := s.usedBy(ctx, run)
	if err != nil {
		return err
	}
	r := newRequest()
	var budgets, leases []sealedRow
	r.check = func(ctx context.Context, w *writer) error {
		budgets, leases = budgets[:0], leases[:0]
		err := each(ctx, w.conn, selectLeases, func(rows *sql.Rows) error {
			row, _, err := s.scanSealed(tableLeases, rows.Scan)
			leases = append(leases, row)
			return err
		}, int64(run))
		if err != nil {
			return asIO(err)
		}
		for _, l := range leases {
			add := unsettled(l, calls)
			if add == 0 {
				continue
			}
			node, err := uuid.FromBytes(l.bytes(leaseNode))
			if err != nil {
				return err
			}
			budget, _, err := w.budget(ctx, store.MeterID{Node: node, What: l.text(leaseWhat)})
			if err != nil {
				return err
			}
			budget[budgetSpent] = budget.int(budgetSpent) + add
			budgets = append(budgets, budget)
		}
		return nil
	}
	r.apply = func(ctx context.Context, w *writer, _ ledger.Seq) error {
		for _, l := range leases {
			if err := w.remove(ctx, tableLeases, l[0], l[1], l[2]); err != nil {
				return err
			}
		}
		return w.putAll(ctx, tableBudgets, budgets)
	}
	return s.submit(ctx, r)
}

// unsettled returns the use of a meter that a run has not accounted for. The
// running time of an interrupted call is unknown, so its whole lease counts as
// used.
func unsettled(lease sealedRow, calls []takenBy) int64 {
	var all int64
	cut := false
	for _, c := range calls {
		all += grant.Charged(lease.text(leaseWhat), c.tool, c.used)
		cut = cut || c.cut
	}
	add := max(0, all-lease.int(leaseSettled))
	if cut && lease.text(leaseWhat) == grant.MeterTime {
		add = max(add, lease.int(leaseAmount))
	}
	return add
}
