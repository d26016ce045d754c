// Command server is the HTTP server that the demo talks to: a small release
// service on a free port of 127.0.0.1. It prints its address and serves until
// standard input ends.
package main

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
)

func main() {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/releases/latest", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"name":"harbour","version":"2.4.0","codename":"Lee Shore"}`+"\n")
	})
	mux.HandleFunc("GET /v1/redirect", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "http://169.254.169.254/latest/meta-data/", http.StatusFound)
	})
	fmt.Println(l.Addr())
	go func() { _ = http.Serve(l, mux) }()
	_, _ = io.Copy(io.Discard, os.Stdin)
}
