package target

import (
	"slices"
	"strings"
)

// registered are the methods of the registry of HTTP methods, and PURGE, which
// caches understand. Others can be sent, but are nearly always misspelled.
var registered = strings.Fields(`ACL BASELINE-CONTROL BIND CHECKIN CHECKOUT COPY DELETE GET HEAD LABEL LINK LOCK MERGE
	MKACTIVITY MKCALENDAR MKCOL MKREDIRECTREF MKWORKSPACE MOVE OPTIONS ORDERPATCH PATCH POST PROPFIND PROPPATCH PURGE PUT
	QUERY REBIND REPORT SEARCH UNBIND UNCHECKOUT UNLINK UNLOCK UPDATE UPDATEREDIRECTREF VERSION-CONTROL`)

// RegisteredMethods are the methods that [Registered] knows, sorted.
func RegisteredMethods() []string { return slices.Clone(registered) }

// Registered reports whether a method, in capitals, is a registered one.
func Registered(method string) bool { return slices.Contains(registered, method) }

// Methods are the methods that the rule names, in capitals; nil means any.
func (r *Rule) Methods() []string { return slices.Clone(r.methods) }
