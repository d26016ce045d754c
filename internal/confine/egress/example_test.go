package egress_test

import (
	"fmt"
	"net"
	"net/http"
	"net/url"

	"github.com/remitrun/remit/internal/authority/permit"
	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/confine/egress"
)

// A sandbox is given a listener, and variables that point there.
func Example() {
	doc, err := policy.Parse("remit.yaml", []byte("version: 1\nnetwork: {allow: ['GET http://api.example.com/v1/**']}"))
	if err != nil {
		panic(err)
	}
	rules, err := doc.Bind(policy.Env{Workspace: "/workspace"})
	if err != nil {
		panic(err)
	}
	// The runner mints the permit when it has decided and recorded the call.
	p := egress.New(egress.Options{Permit: permit.Mint(permit.Terms{Chain: policy.Chain{rules}})})
	l, err := net.Listen("tcp", "127.0.0.1:0") // in the sandbox's own network namespace
	if err != nil {
		panic(err)
	}
	served := make(chan error)
	go func() { served <- p.Serve(l) }()

	proxy, err := url.Parse(p.Env(l.Addr().(*net.TCPAddr).Port)["HTTP_PROXY"])
	if err != nil {
		panic(err)
	}
	guest := &http.Client{Transport: &http.Transport{Proxy: http.ProxyURL(proxy), DisableKeepAlives: true}}
	resp, err := guest.Post("http://api.example.com/v1/things", "text/plain", nil)
	if err != nil {
		panic(err)
	}
	fmt.Println(resp.Status, resp.Header.Get("Remit-Denied"))
	resp.Body.Close()

	p.Close()
	fmt.Println(<-served)
	for _, c := range p.Connections() {
		fmt.Println(c.Target(), c.Effect, c.Rule)
	}
	// Output:
	// 403 Forbidden default
	// <nil>
	// POST http://api.example.com/v1/things deny default
}
