package settings

import (
	"math"
	"time"

	"github.com/remitrun/remit/internal/base/document"
)

// Limits bound what the clients of remit serve use. Zero fields have the defaults of the service.
type Limits struct {
	Connections int // at once
	PerAddress  int // connections at once of one address
	Header      int // bytes of a request's header
	Body        int // bytes of a JSON body
	File        int // bytes of a session's file
	Requests    int // that are carried out at once
	Uploads     int // of large files at once
	Runs        int // of plans at once
	Streams     int // of events at once
	Clients     int // of MCP at once
	OpenRuns    int // runs without a plan at once
	Refused     int // requests a second of one address without a valid grant
	Turn        time.Duration
	RunIdle     time.Duration // without a call, after which an open run ends
}

// limitsFields reads the section limits.
func (r *reader) limitsFields(l *Limits) document.Fields {
	number := func(into *int, least, most int64) document.Field { return document.Int(r.Reader, into, least, most) }
	return document.Fields{
		"connections": number(&l.Connections, 16, 1<<20), "connections_per_address": number(&l.PerAddress, 1, 1<<20),
		"header_bytes": number(&l.Header, 4<<10, 1<<20), "body_bytes": number(&l.Body, 64<<10, 64<<20), "file_bytes": number(&l.File, 64<<10, 1<<30),
		"requests": number(&l.Requests, 2, math.MaxInt32), "uploads": number(&l.Uploads, 2, math.MaxInt32), "runs": number(&l.Runs, 2, math.MaxInt32),
		"streams": number(&l.Streams, 2, math.MaxInt32), "mcp_clients": number(&l.Clients, 2, math.MaxInt32), "refused_per_second": number(&l.Refused, 1, 10_000),
		"open_runs": number(&l.OpenRuns, 2, math.MaxInt32), "turn": r.Duration(&l.Turn), "open_run_idle": r.Duration(&l.RunIdle),
	}
}
