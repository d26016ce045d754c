package tables

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"

	"github.com/google/uuid"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/remitrun/remit/internal/base/fault"
)

// Batch has the rows that a pipelined append inserts. They do not contain the numbers of
// the events, which only the server knows.
type Batch struct {
	Events []EventRow
	Blobs  []BlobRow
	Tools  []ToolRow
	Marks  []MarkRow
	Known  [][]byte // blobs that must be there already, each once
	Runs   []RunRow // runs whose state the events change
	Sync   bool     // make it durable in the same message: no other caller waits for the writer

	keys *Keys
}

// EventRow is a row of table events.
type EventRow struct {
	Run, Call        int64
	Tag              int64
	Part             Part
	Body, Salt, Data []byte
}

// BlobRow is a row of table blobs.
type BlobRow struct {
	Address   []byte
	Size, Enc int64
	Data      []byte
}

// ToolRow is a row of table run_tools.
type ToolRow struct {
	Tool string
	Run  int64
}

// MarkRow is a row of table blocks: the block is that of the batch's event At, from 0.
type MarkRow struct {
	Mark string
	At   int64
}

// RunRow is the new state of a run. Version counts the changes before.
type RunRow struct {
	Seq, Version                                             int64
	Status, Ended, Total, Completed, Denied, Failed, Refused int64
}

// TailBatch is a batch that is not in the tree yet.
type TailBatch struct {
	Node          uuid.UUID
	Number        int64 // of the node's batches
	First, Events int64
	MAC           []byte
}

// MAC authenticates the batch as a node's batch of this number.
func (b *Batch) MAC(node uuid.UUID, number int64) []byte {
	leaves := make([]tlog.Hash, len(b.Events))
	for i := range b.Events {
		leaves[i] = tlog.RecordHash(b.Events[i].Body)
	}
	return b.keys.batchMAC(node, number, leaves)
}

func (k *Keys) batchMAC(node uuid.UUID, number int64, leaves []tlog.Hash) []byte {
	m := hmac.New(sha256.New, k.mac)
	m.Write([]byte("batch\n" + k.origin + "\n"))
	m.Write(node[:])
	var n [8]byte
	binary.BigEndian.PutUint64(n[:], uint64(number))
	m.Write(n[:])
	for _, h := range leaves {
		m.Write(h[:])
	}
	return m.Sum(nil)
}

// checkTail checks the batches after the tree against their events' leaves.
func (k *Keys) checkTail(batches []TailBatch, after int64, leaves []tlog.Hash) error {
	at := after
	for _, b := range batches {
		from := at - after
		if b.First != at+1 || b.Events < 1 || from+b.Events > int64(len(leaves)) {
			return fault.New(fault.StoreCorrupt, "the batch at event %d is missing or has another size than was recorded", at+1)
		}
		if !hmac.Equal(b.MAC, k.batchMAC(b.Node, b.Number, leaves[from:from+b.Events])) {
			return fault.New(fault.StoreCorrupt, "the batch of events %d to %d was not written by this ledger", b.First, at+b.Events)
		}
		at += b.Events
	}
	if at-after != int64(len(leaves)) {
		return fault.New(fault.StoreCorrupt, "event %d belongs to no batch", at+1)
	}
	return nil
}
