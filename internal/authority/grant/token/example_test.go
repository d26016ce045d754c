package token_test

import (
	"fmt"
	"time"

	"github.com/remitrun/remit/internal/authority/grant"
	"github.com/remitrun/remit/internal/authority/grant/token"
	"github.com/remitrun/remit/internal/base/fault"
)

// A ledger issues a token; its holder narrows it for an agent, offline; and the
// ledger verifies what the agent shows.
func Example() {
	issued, err := token.Issue(token.Root{
		Ledger: ledgerID, ID: otherID, Block: token.Block{
			Holder: "user:ann", Issued: start, Expires: start.Add(24 * time.Hour), Budgets: grant.Budgets{Calls: 100},
			Policies: []token.Policy{{File: "work.yaml", Source: "version: 1\nfiles: {read: {allow: [\"**\"]}}\n"}},
		},
	}, key("ledger"), source("example"))
	if err != nil {
		panic(err)
	}
	narrowed, err := token.Append(issued, token.Block{
		Holder: "agent:docs", Expires: start.Add(2 * time.Hour), Budgets: grant.Budgets{Calls: 20},
		Policies: []token.Policy{{File: "docs.yaml", Source: "version: 1\nfiles: {read: {allow: [\"docs/**\"]}}\n"}},
	}, source("example, narrowed"))
	if err != nil {
		panic(err)
	}
	claims, err := token.Verify(narrowed, trust, token.Use{At: start.Add(time.Hour)})
	if err != nil {
		panic(err)
	}
	fmt.Println(claims.Holder(), "until", claims.Expires().Format(time.TimeOnly), "with", claims.Budgets())
	_, err = token.Verify(narrowed, trust, token.Use{At: start.Add(3 * time.Hour)})
	fmt.Println(fault.Message(err))
	// Output:
	// agent:docs until 05:04:05 with 20 calls
	// the grant 2e4fb50d-669d-8a23-ac09-e8bfb8679af5 expired at 2030-01-02T05:04:05Z (ask its issuer for a new one)
}
