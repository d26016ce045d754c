package tool

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/remitrun/remit/internal/base/fault"
)

// ID names a tool: "fs.read", "ext:postman:get", "mcp:github:get_issue".
type ID string

// AuthorityRequest is the built-in tool that requests authority for another call.
const AuthorityRequest ID = "authority.request"

// Extension is the name of the extension that provides the tool, "" for other tools.
func (id ID) Extension() string {
	rest, ok := strings.CutPrefix(string(id), "ext:")
	if name, _, more := strings.Cut(rest, ":"); ok && more {
		return name
	}
	return ""
}

// ParseID checks an ID: one to 200 bytes of letters, digits and "._:/@-",
// beginning with a letter or digit. One tool has one spelling.
func ParseID(s string) (ID, error) {
	if s == "" || len(s) > 200 {
		return "", fault.New(fault.ToolUnknown, "a tool ID has 1 to 200 bytes, this one %d", len(s))
	}
	for i := 0; i < len(s); i++ {
		c := s[i]
		letter := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
		if !letter && (i == 0 || !strings.ContainsRune("._:/@-", rune(c))) {
			return "", fault.New(fault.ToolUnknown, "%q is not a valid tool ID: byte %d is not allowed there", s, i+1)
		}
	}
	return ID(s), nil
}

func (id ID) String() string { return string(id) }

// Risk says how bad a call can turn out.
type Risk uint8

// The risks, lowest first. The zero value is Low so that comparisons read naturally;
// it is not a rating: the catalog infers the risk of every tool that is not built in.
const (
	Low Risk = iota
	Medium
	High
	Critical
)

var riskNames = [...]string{"low", "medium", "high", "critical"}

func (r Risk) String() string {
	if int(r) < len(riskNames) {
		return riskNames[r]
	}
	return fmt.Sprintf("risk(%d)", uint8(r))
}

// ParseRisk reads the result of String.
func ParseRisk(s string) (Risk, bool) {
	for i, n := range riskNames {
		if n == s {
			return Risk(i), true
		}
	}
	return Critical, false
}

// Effect is one kind of side effect.
type Effect uint8

// The vocabulary of side effects.
const (
	FSRead Effect = iota
	FSWrite
	FSDelete
	FSChmod
	NetworkHTTP
	NetworkSocket
	NetworkDNS
	CloudKeyRead
	CloudKeyWrite
	CloudResourceCreate
	CloudResourceDelete
	Payments
	SystemExec
	SystemEnv
	DatabaseRead
	DatabaseWrite
	DatabaseDelete
	numEffects
)

var effectNames = [numEffects]string{"fs.read", "fs.write", "fs.delete", "fs.chmod", "network.http", "network.socket",
	"network.dns", "cloud.key_read", "cloud.key_write", "cloud.resource_create", "cloud.resource_delete", "payments",
	"system.exec", "system.env", "database.read", "database.write", "database.delete"}

func (e Effect) String() string {
	if e < numEffects {
		return effectNames[e]
	}
	return fmt.Sprintf("effect(%d)", uint8(e))
}

// MarshalText prints the effect's name.
func (e Effect) MarshalText() ([]byte, error) { return []byte(e.String()), nil }

// UnmarshalText reads the result of MarshalText.
func (e *Effect) UnmarshalText(b []byte) error {
	for i, n := range effectNames {
		if n == string(b) {
			*e = Effect(i)
			return nil
		}
	}
	return fmt.Errorf("%q is not a side effect", b)
}

// Effects is a set of side effects.
type Effects uint32

// EffectSet makes a set.
func EffectSet(es ...Effect) Effects {
	var s Effects
	for _, e := range es {
		s |= 1 << e
	}
	return s
}

// ParseEffects reads the names of side effects.
func ParseEffects(names []string) (Effects, error) {
	var set Effects
	for _, name := range names {
		var e Effect
		if err := e.UnmarshalText([]byte(name)); err != nil {
			return 0, err
		}
		set |= EffectSet(e)
	}
	return set, nil
}

// Has reports whether e is in the set.
func (s Effects) Has(e Effect) bool { return s&(1<<e) != 0 }

// List gives the effects in the vocabulary's order.
func (s Effects) List() []Effect {
	out := []Effect{}
	for e := Effect(0); e < numEffects; e++ {
		if s.Has(e) {
			out = append(out, e)
		}
	}
	return out
}

func (s Effects) String() string {
	names := make([]string, 0, 4)
	for _, e := range s.List() {
		names = append(names, e.String())
	}
	return strings.Join(names, " ")
}

// MarshalJSON prints a list of names.
func (s Effects) MarshalJSON() ([]byte, error) { return json.Marshal(s.List()) }

// Harmless are the effects that leave the world as it was and carry nothing
// out. A call all of whose effects are harmless needs no durable intent.
const Harmless = Effects(1<<FSRead | 1<<DatabaseRead)

// Effectful reports whether a call with these effects can change the world or
// carry data out of it: anything but reading files and databases, so every
// network request counts.
func (s Effects) Effectful() bool { return s&^Harmless != 0 }
