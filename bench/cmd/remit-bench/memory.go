package main

import (
	"crypto/rand"
	"fmt"
	"os"
	"path/filepath"
)

const (
	outputBytes = 768 << 10 // 1 MiB as base64
	memoryFlat  = 1.25
)

// memory runs plans whose every step has an output of 1 MiB that no other step has: windows of a
// file of random bytes, each some bytes further on. Equal outputs are kept once, and no two are
// equal as a whole.
func (b *bench) memory() error {
	few, many := 500, 5000
	if b.full {
		few, many = 1000, 10000
	}
	data := make([]byte, outputBytes+8*many)
	_, _ = rand.Read(data) // never fails
	dir, err := b.workspace("memory", map[string]string{"policy.yaml": readPolicy, "data.bin": string(data)})
	if err != nil {
		return err
	}
	var large, small [2]long
	for i, n := range []int{few, many} {
		if large[i], err = b.long(dir, n, outputBytes); err != nil {
			return err
		}
		if small[i], err = b.long(dir, n, 16); err != nil {
			return err
		}
	}
	if s := large[1].stored; s < outputBytes*0.95 {
		return fmt.Errorf("only %.0f bytes were stored for each output: they were not different", s)
	}
	ratio := large[1].peak / large[0].peak
	b.table.add(fmt.Sprintf("peak memory of a plan with 1 MiB of random output in each step, %s steps beside %s", thousands(float64(many)), thousands(float64(few))),
		"flat (≤ 1.25 ×)", fmt.Sprintf("%.2f × (%.0f MiB beside %.0f MiB)", ratio, large[1].peak, large[0].peak), ratio <= memoryFlat)
	more := [2]float64{large[0].peak - small[0].peak, large[1].peak - small[1].peak}
	b.table.add("what of it the outputs take: beyond the same plans with outputs of 16 bytes", "flat (≤ 1.25 ×)",
		fmt.Sprintf("%.2f × (%.0f MiB beside %.0f MiB)", more[1]/more[0], more[1], more[0]), more[1] <= more[0]*memoryFlat)
	b.table.note("one such step: read, decide, compress, hash, record", fmt.Sprintf("%.1f ms", large[1].took*1000))
	return nil
}

// long is what a long plan took.
type long struct {
	peak   float64 // memory, in MiB
	stored float64 // bytes of the database for each step
	took   float64 // seconds for each step
}

// long runs a plan of n steps, each with an output of size random bytes.
func (b *bench) long(dir string, n, size int) (long, error) {
	if err := writePlan(filepath.Join(dir, "plan.yaml"), n, func(i int) string {
		return fmt.Sprintf("fs.read, args: {path: data.bin, encoding: base64, offset: %d, limit: %d}", 8*i, size)
	}); err != nil {
		return long{}, err
	}
	home := filepath.Join(dir, "home")
	r, err := b.start(home, dir, "run", "plan.yaml", "-p", "policy.yaml")
	if err != nil {
		return long{}, err
	}
	info, err := os.Stat(filepath.Join(home, "remit.db"))
	if err != nil {
		return long{}, err
	}
	each := float64(n)
	return long{float64(r.rss) / (1 << 20), float64(info.Size()) / each, r.took.Seconds() / each}, os.RemoveAll(home)
}
