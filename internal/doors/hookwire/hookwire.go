// Package hookwire encodes what the hook of an agent, or its shell, sends to a Remit process on the same
// machine, and the answer. The client is built from it, so it imports nothing that takes time when a
// process starts. Start at [Request] and [Answer].
package hookwire

import (
	"errors"
	"strings"
)

// Limits of a message, in bytes.
const (
	MaxEvent   = 16 << 20 // an agent's event
	MaxRequest = MaxEvent + 4<<20
	MaxOut     = MaxEvent + 1<<20 // an answer to an agent, which can have the output of the event
	MaxAnswer  = MaxOut + 1<<20
)

// Socket is the socket's path in a sandbox that holds a whole agent. On the machine itself only root
// can make it.
const Socket = "/run/remit/hook.sock"

// Request is how an agent's hook, or its shell, was started.
type Request struct {
	Shell   bool     // remit sh; else remit hook
	Port    bool     // remit port: Args is empty, or names the sandbox of a session by its ID and workspace
	Program string   // identifies the client's remit program; see [Identify]
	Args    []string // of the command
	Env     []string
	Dir     string // the current folder
	Event   []byte // of remit hook
}

// Answer is how the command ends.
type Answer struct {
	Decline bool // the client has to run the command itself
	Status  byte
	Out     []byte
	Err     []byte
	// Files are descriptors beside the message: the sockets of one connection, for remit port.
	Files []int
}

// The first bytes of a message. Another form of it has another number.
const (
	requestMark = "remit hook 1\n"
	shellMark   = "remit sh 1\n"
	portMark    = "remit port 1\n"
	answerMark  = Greeting + "remit said 1\n"
)

// Greeting begins an answer. It is sent as soon as the client is admitted, so that the client waits for
// no process that is stopped or overloaded.
const Greeting = "+"

// Ready is sent behind the greeting by a process that is about to run a script. It begins once the
// client has written [Go] to its control pipe, and the client then never runs the script itself. Whatever
// else comes behind the greeting: the script was not started.
const Ready = "!"

// What a client writes to its control pipe. The pipe's end stops the script, too: the client has gone.
const (
	Go   = "g" // start the script
	Stop = "s" // end it, and answer
)

// Descriptors is how many a client sends with a script: standard input, output and error, and the end of
// its control pipe that is read.
const Descriptors = 4

var (
	errNotWhole  = errors.New("the message is not whole, or not of this version of Remit")
	errWithNUL   = errors.New("a word has a NUL byte")
	errTooLarge  = errors.New("the message is too large")
	errNotAnswer = errors.New("the answer has an unknown kind")
)

// Bytes encodes a request.
func (r Request) Bytes() ([]byte, error) {
	args, err := joined(r.Args)
	if err != nil {
		return nil, err
	}
	env, err := joined(r.Env)
	if err != nil {
		return nil, err
	}
	b := message(r.mark(), []byte(r.Program), args, env, []byte(r.Dir), r.Event)
	if len(b) > MaxRequest {
		return nil, errTooLarge
	}
	return b, nil
}

func (r Request) mark() string {
	switch {
	case r.Shell:
		return shellMark
	case r.Port:
		return portMark
	}
	return requestMark
}

// ParseRequest decodes a request.
func ParseRequest(b []byte) (Request, error) {
	r := Request{Shell: begins(b, shellMark), Port: begins(b, portMark)}
	parts, err := split(b, r.mark(), 5)
	if err != nil {
		return Request{}, err
	}
	r.Program, r.Dir, r.Event = string(parts[0]), string(parts[3]), parts[4]
	if r.Args, err = words(parts[1]); err == nil {
		r.Env, err = words(parts[2])
	}
	return r, err
}

func begins(b []byte, mark string) bool { return string(b[:min(len(b), len(mark))]) == mark }

// Bytes encodes an answer, without its Files.
func (a Answer) Bytes() []byte {
	kind := []byte{0, a.Status}
	if a.Decline {
		kind[0] = 1
	}
	return message(answerMark, kind, a.Out, a.Err)
}

// ParseAnswer decodes an answer.
func ParseAnswer(b []byte) (Answer, error) {
	parts, err := split(b, answerMark, 3)
	if err != nil {
		return Answer{}, err
	}
	if kind := parts[0]; len(kind) != 2 || kind[0] > 1 {
		return Answer{}, errNotAnswer
	}
	return Answer{Decline: parts[0][0] == 1, Status: parts[0][1], Out: parts[1], Err: parts[2]}, nil
}

// message is a mark and its parts, each after its length.
func message(mark string, parts ...[]byte) []byte {
	size := len(mark)
	for _, p := range parts {
		size += 4 + len(p)
	}
	b := append(make([]byte, 0, size), mark...)
	for _, p := range parts {
		n := uint32(len(p)) //nolint:gosec // MaxRequest and MaxAnswer are smaller
		b = append(b, byte(n>>24), byte(n>>16), byte(n>>8), byte(n))
		b = append(b, p...)
	}
	return b
}

// split undoes message. Every byte of the message belongs to a part.
func split(b []byte, mark string, n int) ([][]byte, error) {
	if !begins(b, mark) {
		return nil, errNotWhole
	}
	b = b[len(mark):]
	parts := make([][]byte, n)
	for i := range parts {
		if len(b) < 4 {
			return nil, errNotWhole
		}
		size := int(b[0])<<24 | int(b[1])<<16 | int(b[2])<<8 | int(b[3])
		if b = b[4:]; size > len(b) {
			return nil, errNotWhole
		}
		parts[i], b = b[:size], b[size:]
	}
	if len(b) > 0 {
		return nil, errNotWhole
	}
	return parts, nil
}

// joined puts a NUL byte behind each word.
func joined(list []string) ([]byte, error) {
	var b []byte
	for _, w := range list {
		if strings.IndexByte(w, 0) >= 0 {
			return nil, errWithNUL
		}
		b = append(append(b, w...), 0)
	}
	return b, nil
}

// words undoes joined.
func words(b []byte) ([]string, error) {
	if len(b) == 0 {
		return nil, nil
	}
	if b[len(b)-1] != 0 {
		return nil, errNotWhole
	}
	return strings.Split(string(b[:len(b)-1]), "\x00"), nil
}
