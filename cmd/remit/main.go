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

// run turns the first interrupt into a cancelled context and leaves a second
// one to end the process at once.
func run() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop)
	// A reader that goes away, as head does, must not end a plan half way: a caught signal is not
	// inherited by commands, and writes just fail.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	return cli.Main(ctx, os.Args[1:], cli.Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr}, os.Environ(), version)
}
