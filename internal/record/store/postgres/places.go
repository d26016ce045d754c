package postgres

import "context"

// TakePlaces notes how many calls of a key this node wants to have under way, of the most that
// all nodes together may. It returns how many it may have, which are never fewer than it has.
// The places of a node that was removed are free.
func (s *Store) TakePlaces(ctx context.Context, key []byte, most, want int) (got int, err error) {
	err = s.turnsDo(ctx, func(ctx context.Context) error {
		if _, err := s.HoldsLease(); err != nil {
			return err
		}
		return s.durable.QueryRowContext(ctx, "SELECT remit_take_places($1, $2, $3, $4)", key, s.me(), most, max(want, 0)).Scan(&got)
	})
	return got, err
}
