// Command remit executes AI agents' tool calls within their remit.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/remitrun/remit/internal/cli"
	_ "github.com/remitrun/remit/internal/confine/sandbox/spawn" // takes over when this binary is started as the sandbox's spawner
)

// version is set when a release is built.
var version = "dev"

func main() { os.Exit(run()) }

// signalled is the cause of a context that a signal has cancelled.
type signalled struct{ os.Signal }

// Error implements error.
func (s signalled) Error() string { return s.Signal.String() + " signal received" }

// Unwrap says that the context was cancelled.
func (s signalled) Unwrap() error { return context.Canceled }

// Received is the signal, for the command that Remit runs.
func (s signalled) Received() os.Signal { return s.Signal }

// run turns the first interrupt into a cancelled context and leaves a second
// one to end the process at once.
func run() int {
	ctx, stop := untilSignal(context.Background())
	defer stop()
	// A reader that goes away, as head does, must not end a plan half way: a caught signal is not
	// inherited by commands, and writes just fail.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	return cli.Main(ctx, os.Args[1:], cli.Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr}, os.Environ(), version)
}

// untilSignal returns a context that SIGINT, SIGTERM or SIGHUP cancels. An ignored SIGHUP stays ignored, as under nohup.
func untilSignal(parent context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(parent)
	signals := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) {
		signals = append(signals, syscall.SIGHUP)
	}
	got := make(chan os.Signal, 1)
	signal.Notify(got, signals...)
	go func() {
		select {
		case s := <-got:
			cancel(signalled{s})
		case <-ctx.Done():
		}
		signal.Stop(got)
	}()
	return ctx, func() { cancel(context.Canceled) }
}
