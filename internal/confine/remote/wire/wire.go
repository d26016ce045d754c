// Package wire holds what a node and a worker say to each other. The worker opens the TLS
// connection, and both have certificates; on it the node is the client of HTTP/2 and the worker the server:
//
//	POST /missing            the digests that the worker lacks, of a list
//	PUT  /blobs/HASH         the content of a digest
//	POST /calls/ID           one call: a Start and then Tokens that renew it; answers with a Result and its contents
//	POST /calls/ID/egress    one connection of the call's command, both ways
package wire

import (
	"bufio"
	"encoding/json"
	"io"
	"time"

	"github.com/remitrun/remit/internal/authority/permit"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/confine/changeset"
	"github.com/remitrun/remit/internal/confine/sandbox"
)

// Protocols that a worker asks for when it connects (ALPN), and the name in the node's certificate.
const (
	JoinProtocol = "remit-join/1"
	WorkProtocol = "remit-worker/1"
	NodeName     = "node.remit.internal"
)

// A token is valid for Life, and renewed every Renew. Both are much longer than a round trip.
const (
	Life  = 6 * time.Second
	Renew = 1500 * time.Millisecond
)

// MaxLine bounds one encoded message. MaxChanges bounds the changes of one call.
const (
	MaxLine    = 160 << 20
	MaxChanges = 100_000
)

// Start begins a call.
type Start struct {
	Token permit.Token      `json:"token"`
	Env   map[string]string `json:"env"` // of the way out to the network
	CA    []byte            `json:"ca,omitempty"`
}

// Command is the part of a sandbox.Command that a worker carries out.
type Command struct {
	Argv      []string          `json:"argv"`
	Dir       string            `json:"dir"`
	Env       map[string]string `json:"env,omitempty"`
	Stdin     []byte            `json:"stdin,omitempty"`
	Timeout   time.Duration     `json:"timeout,omitempty"`
	MaxOutput int64             `json:"max_output,omitempty"`
	Shell     bool              `json:"shell,omitempty"`
	POSIX     bool              `json:"posix,omitempty"`
	Starts    []tool.Action     `json:"starts,omitempty"`
	Typed     bool              `json:"typed,omitempty"`
	Long      bool              `json:"long,omitempty"`
}

// CommandOf describes a command for a worker.
func CommandOf(c sandbox.Command) Command {
	return Command{c.Argv, c.Dir, c.Env, c.Stdin, c.Timeout, c.MaxOutput, c.Shell, c.POSIX, c.Starts, c.Typed, c.Long}
}

// Sandbox is the command as the worker's sandbox takes it.
func (c Command) Sandbox() sandbox.Command {
	return sandbox.Command{Argv: c.Argv, Dir: c.Dir, Env: c.Env, Stdin: c.Stdin, Timeout: c.Timeout, MaxOutput: c.MaxOutput,
		Shell: c.Shell, POSIX: c.POSIX, Starts: c.Starts, Typed: c.Typed, Long: c.Long}
}

// Result is how a call ended. The contents of added and modified files follow it, in order.
type Result struct {
	Outcome sandbox.Outcome    `json:"outcome"`
	Started bool               `json:"started"` // the command was started, so it may have had effects
	Code    fault.Code         `json:"code,omitempty"`
	Message string             `json:"message,omitempty"`
	Changes []changeset.Change `json:"changes,omitempty"`
}

// Refusal is the answer to a request that is refused before anything is started.
type Refusal struct {
	Code    fault.Code `json:"code"`
	Message string     `json:"message"`
}

// Read reads one message, which is one line.
func Read(r *bufio.Reader, into any) error {
	var line []byte
	for {
		part, err := r.ReadSlice('\n')
		if line = append(line, part...); len(line) > MaxLine {
			return fault.New(fault.LimitReached, "a message has more than %d bytes", MaxLine)
		}
		if err == nil {
			return json.Unmarshal(line, into)
		}
		if err != bufio.ErrBufferFull { //nolint:errorlint // ReadSlice returns it as it is
			return err
		}
	}
}

// Write writes one message.
func Write(w io.Writer, v any) error {
	b, err := json.Marshal(v)
	if err == nil {
		_, err = w.Write(append(b, '\n'))
	}
	return err
}
